"""Sessions over HTTP: resources, a stream of events, and who may do what. Imported by `windlass serve` alone."""
