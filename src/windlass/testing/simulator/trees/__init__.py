"""Trees of sessions in a simulated world: their agents, and what must hold for them."""
