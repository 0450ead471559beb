"""Tools: which are there, and the way of a call from the model's wish to its one result."""
