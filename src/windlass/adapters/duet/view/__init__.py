"""The log of a session as events of Duet's turn protocol: a fold, and what it makes of each kind of record."""
