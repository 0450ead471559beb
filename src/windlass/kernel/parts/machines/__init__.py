"""State machines: the state that an agent's task is in, what happens there, and what follows it."""
