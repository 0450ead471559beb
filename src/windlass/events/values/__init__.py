"""What events are made of: blocks, items, specs, failures, usage, ids."""
