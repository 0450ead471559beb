"""Operator work on sessions, called as a server or a console would: no command line, nothing printed."""
