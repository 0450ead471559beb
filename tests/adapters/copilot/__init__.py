"""The published clients of the Copilot SDK, unchanged, against `windlass copilot`."""
