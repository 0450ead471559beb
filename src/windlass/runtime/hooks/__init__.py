"""Code of the user's own at named points: what it is, where it runs, and what it may rule."""
