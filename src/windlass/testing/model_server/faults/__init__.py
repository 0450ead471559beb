"""Everything that can go wrong with a provider: in what it says and in how it sends it."""
