"""Sessions over standard input and output: JSON-RPC 2.0, one object per line, for a program that starts its server."""
