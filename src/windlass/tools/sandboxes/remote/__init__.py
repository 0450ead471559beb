"""A sandbox on another machine: the worker that offers it over HTTP, and the runtime's side of it."""
