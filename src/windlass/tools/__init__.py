"""Tools: functions with schemas and contracts, the context they get, and the planes that run them.

It knows events and nothing of kernels, stores or runtimes; a running tool reaches its session through its context.
"""
