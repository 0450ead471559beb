"""What people are shown: the timeline of a log, requests, narration, figures. Pure functions."""
