"""Records and live events as clients get them: a record with its place and the cursor behind it, a live event marked as
ephemeral, without either."""

from __future__ import annotations

import msgspec

from windlass.events.live import Live
from windlass.events.stored import codec
from windlass.runtime.streams.record import Record

_encode = msgspec.json.Encoder().encode


def record_bytes(record: Record) -> bytes:
    """A record as JSON."""
    event = codec.encode_view(record.event)
    place = (record.seq, record.at_ms, record.first, record.cursor.encode())
    return b'{"seq":%d,"at_ms":%d,"cause":%d,"cursor":"%s","event":%s}' % (*place, event)


def live_bytes(live: Live) -> bytes:
    """A live event as JSON."""
    return b'{"ephemeral":true,"event":%s}' % _encode(live)
