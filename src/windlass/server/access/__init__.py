"""Who may do what: tokens and their roles, the gate that every request passes, and the bounds of a server."""
