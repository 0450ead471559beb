"""OpenTelemetry: the log of a session as GenAI spans and metrics, and how they are written for others."""
