"""Verbs that answer a session or steer it, through its inbox."""
