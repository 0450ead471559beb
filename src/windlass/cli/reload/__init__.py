"""`windlass serve --reload`: a small process keeps the address, and has fresh servers take over when files change."""
