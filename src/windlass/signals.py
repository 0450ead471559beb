"""Signals: the table that says what becomes of each."""

from windlass.events.values.attention import Attend, Attention, Busy, Urgency, WhileBusy, always

__all__ = ["Attend", "Attention", "Busy", "Urgency", "WhileBusy", "always"]
