"""Records as JSON for programs: one object per line, in ASCII, so that no terminal obeys what a model wrote."""

from __future__ import annotations

import json

from windlass.events.live import Live
from windlass.events.stored import codec
from windlass.runtime.streams.tree_merge import Scoped

from .view import Told, UnknownRecord


class RecordJson:
    """A view that gives each record as `{"seq", "at_ms", "cause", "event"}`, and passes live events over."""

    def feed(self, told: Told) -> list[str]:
        """The line of one record."""
        if isinstance(told, Live):
            return []
        event = told.skeleton if isinstance(told, UnknownRecord) else codec.encode_view(told.event)
        line = b'{"seq":%d,"at_ms":%d,"cause":%d,"event":%s}' % (told.seq, told.at_ms, told.first, event)
        return [json.dumps(json.loads(line), ensure_ascii=True)]


def scoped_json(scoped: Scoped) -> str:
    """A record of a tree: what `RecordJson` gives, with the session that it is of and the frames that lead there."""
    (line,) = RecordJson().feed(scoped.told)
    frames = [{"call": frame.call_id, "session": frame.session, "agent": frame.agent} for frame in scoped.frames]
    return json.dumps({"session": scoped.session, "scope": scoped.scope, "frames": frames, **json.loads(line)})
