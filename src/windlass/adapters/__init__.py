"""Other people's protocols, one folder each: what their clients ask for becomes commands, and the log their events."""
