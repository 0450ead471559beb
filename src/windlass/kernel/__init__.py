"""The pure part that decides: no clock, no randomness, no I/O.

`decide.step` takes a fact, `evolve` folds, `owed` says what the world still owes."""
