"""The small language model that runs in this very process, and how it is taught to call tools."""
