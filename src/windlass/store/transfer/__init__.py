"""Moving a session between stores, as one stream of JSON lines that ends in its own checksum."""

from .exporter import export_session
from .importer import Exported, adopt_export, read_export, spool

__all__ = ["Exported", "adopt_export", "export_session", "read_export", "spool"]
