"""Sources of signals that a runtime looks at itself."""
