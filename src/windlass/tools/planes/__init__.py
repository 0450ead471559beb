"""Where tools run: planes, threads, deadlines, and what came of a call."""
