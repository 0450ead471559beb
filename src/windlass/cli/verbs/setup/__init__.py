"""Verbs that set up an installation and look at it: init, completion, doctor, models, sim."""
