"""What can be asked over HTTP, one module for each kind of thing; the closed list of routes, and its document."""
