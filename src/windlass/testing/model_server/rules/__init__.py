"""What each provider refuses, and what that knowledge rests on."""
