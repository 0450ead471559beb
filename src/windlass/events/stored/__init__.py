"""The stored form of a log: records, codec, and the registry of every tag."""
