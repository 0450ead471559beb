"""State machines as the host sees them: definitions as values, checked; what their states do; diagrams; turn states."""
