"""The four wire formats: how each writes requests, reads answers and imports histories."""
