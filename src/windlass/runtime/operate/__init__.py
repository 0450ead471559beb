"""What an operator does with sessions: look at one at any point, deliver a command, verify, replay and compare. Prints
nothing, so that a server or a console can call it as well as the command line."""
