"""The log of a session as an editor is told of it: a fold, and what it makes of each kind of record."""
