"""The pure part that decides: no clock, no randomness, no I/O.

`parts` are its machines, each with its slice of the state, its events and what follows from them; `step` takes a fact,
`fold` adds an event to the state, `owed` says what the world still owes, and `program` what comes next when nothing is
out. All of them go over the closed list of parts."""
