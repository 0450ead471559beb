"""`windlass chat`: a conversation with an agent on a terminal."""
