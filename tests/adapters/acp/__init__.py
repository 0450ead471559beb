"""The Agent Client Protocol, as its published clients speak it."""
