"""The folder that a session works in: its git repository and its instruction files."""
