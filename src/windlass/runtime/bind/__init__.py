"""An agent bound to code: its tools, conditions and output type, and what this process adds to a session."""
