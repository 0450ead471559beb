"""What the small programs that start and end others share; those that are run as files import nothing else of ours."""
