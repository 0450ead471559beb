"""The store of plain files: a directory per session, its log as JSON lines."""
