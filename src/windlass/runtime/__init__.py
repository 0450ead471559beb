"""The part that performs effects: it drives sessions, feeds facts back and publishes what was committed."""
