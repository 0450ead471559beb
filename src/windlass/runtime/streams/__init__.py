"""What is told of sessions: the log read in one way, records and live events handed to readers, cursors."""
