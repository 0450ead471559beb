"""OpenTelemetry while sessions work: `windlass.open(..., telemetry=Telemetry(exporter))`."""

from windlass.protocol.telemetry.live_export import Telemetry

__all__ = ["Telemetry"]
