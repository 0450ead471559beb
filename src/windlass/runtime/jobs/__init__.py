"""Background jobs on this machine: a folder and a small supervisor process for each, found again after a crash."""
