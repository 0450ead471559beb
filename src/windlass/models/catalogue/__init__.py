"""Which model a name means: the table of models and endpoints, and the keys that they need."""
