"""Duet's turn protocol: six commands in, events with the whole turn state at the end of each turn out."""
