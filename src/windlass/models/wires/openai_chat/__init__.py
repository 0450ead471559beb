"""OpenAI Chat Completions, and what calls itself compatible with it."""
