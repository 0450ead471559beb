"""The process plane: tools of the author's own in processes of their own, with the same context."""
