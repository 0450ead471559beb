"""The runtime as its users meet it: through the public names, over real stores, against real processes."""
