"""One session in memory, owned by this process: its state, its lease, its clock, its events, and its one writer."""
