"""Signals: the table that says what becomes of each, and folders that are watched for files; the table drawn."""

from windlass.events.values.attention import Attend, Attention, Busy, Urgency, WhileBusy, always
from windlass.runtime.attention.diagrams import mermaid, svg
from windlass.runtime.attention.file_watch import FileWatch

__all__ = ["Attend", "Attention", "Busy", "FileWatch", "Urgency", "WhileBusy", "always", "mermaid", "svg"]
