"""Python types on the way to JSON Schema and back: annotations, docstrings, conversion."""
