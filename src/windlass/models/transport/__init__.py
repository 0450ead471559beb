"""How a request reaches a provider: HTTP, server-sent events, deadlines, the circuit breaker, typed failures."""
