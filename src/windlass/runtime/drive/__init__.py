"""One session at work: its driver, what is under way and what comes in, and those who perform its effects."""
