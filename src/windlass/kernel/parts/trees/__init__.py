"""What a session has of its own as part of a tree: the worktree that a child works in."""
