"""Whether commands only read: the forms in which they do, and nothing by a name alone."""
