"""Workflows in a simulated world: their graphs, and what must hold for them."""
