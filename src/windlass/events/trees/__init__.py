"""What is said of the sessions beneath a session: children, workflows, machines."""
