"""What a session has as part of a tree: shares for its children, its own side as a child, the worktree it works in."""
