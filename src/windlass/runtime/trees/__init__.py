"""Trees of sessions: specialists, the children that calls start, and what sessions say to each other."""
