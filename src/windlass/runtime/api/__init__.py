"""What a user of the package holds: agents, sessions, policies, results, and the runtime as the door to them."""
