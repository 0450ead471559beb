"""Verbs that answer a session or steer it, through its inbox: approve, deny, answer, settle, interrupt, cancel, wake,
queue, grants."""
