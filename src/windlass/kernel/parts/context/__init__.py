"""What the model sees: its history, how a request begins, and what is done when the window is full."""
