"""What each kind of node does: pure functions from what it was given and what its calls gave to what comes next."""
