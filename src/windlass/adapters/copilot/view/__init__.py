"""The log of a session as events of the Copilot SDK: a fold, and what it makes of each kind of record."""
