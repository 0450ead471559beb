"""State machines in a simulated world: their definitions, and what must hold for them."""
