"""The skills of a session: looked for when it begins, told to its model, and brought into its context."""
