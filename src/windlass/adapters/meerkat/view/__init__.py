"""Our logs in Meerkat's events: a fold over records, with nothing that a restart would lose."""
