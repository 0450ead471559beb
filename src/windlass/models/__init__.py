"""Language models: one interface, four wire formats, a table of endpoints and the embedded model.

Knows nothing of sessions or logs, and loads no HTTP library before the first request.
"""
