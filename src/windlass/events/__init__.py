"""The vocabulary of Windlass: all that can stand in a log, and the values it is made of. Imports nothing of ours."""
