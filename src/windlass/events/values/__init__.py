"""What events are made of: blocks, items, setup, settings, policy, tools, failures, usage, ids."""
