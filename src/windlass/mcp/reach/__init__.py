"""How a server is reached, by a process or by HTTP, and how much of it is heard: sizes, times, paces."""
