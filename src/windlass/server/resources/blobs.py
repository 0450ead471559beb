"""Blobs: large contents that logs name by their digest. Nothing that is sent here is ever shown by a browser."""

from __future__ import annotations

import re

from windlass.events.values.blocks import BlobRef
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call, none_such
from windlass.server.problems import Problem
from windlass.server.route import Parameter, Route
from windlass.store.base import BLOB_BYTES_MAX, MEDIA_TYPE
from windlass.store.rules.ids import check_digest

MEDIA = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,60}/[A-Za-z0-9!#$&^_.+-]{1,60}\Z")


async def put_blob(call: Call) -> Answer:
    """Keeps bytes, and gives what names them."""
    media = call.headers.get("content-type", MEDIA_TYPE).partition(";")[0].strip()
    if not MEDIA.match(media):
        raise Problem(415, "media_type", f"{media[:80]!r} is no media type: write one such as image/png")
    data = await call.body(call.limits.blob_bytes)
    digest = await (await call.store()).blobs.put(call.token.tenant, data, media_type=media)
    return told(BlobRef(digest=digest, size=len(data), media_type=media), 201)


async def get_blob(call: Call) -> Answer:
    """The bytes of a blob, or a part of them."""
    digest = check_digest(call.names["digest"])
    blobs = (await call.store()).blobs
    info = await blobs.info(call.token.tenant, digest)
    if info is None:
        raise none_such(f"blob {digest}")
    start = call.number("start", 0, most=BLOB_BYTES_MAX)
    length = call.number("length", call.limits.blob_bytes, most=call.limits.blob_bytes)
    data = await blobs.get(call.token.tenant, digest, start=start, length=length)
    media = info.media_type if MEDIA.match(info.media_type) else MEDIA_TYPE
    headers = {"Content-Disposition": "attachment", "Blob-Media-Type": media, "Blob-Size": str(info.size)}
    return Answer(body=data, media=MEDIA_TYPE, headers=headers)


WHOLE = {"type": "integer", "minimum": 0}

ROUTES = (
    Route(
        method="POST",
        path="/v1/blobs",
        name="putBlob",
        role="drive",
        words="Keeps bytes under their digest. `Content-Type` is what they are.",
        handler=put_blob,
        takes_bytes=True,
        gives=BlobRef,
        status=201,
        fails=(507,),
        while_draining=False,
    ),
    Route(
        method="GET",
        path="/v1/blobs/{digest}",
        name="getBlob",
        role="read",
        words="The bytes of a blob, or a part of them; `Blob-Media-Type` says what they are, `Blob-Size` how many.",
        handler=get_blob,
        parameters=(
            Parameter(name="start", words="Where to begin.", schema=WHOLE | {"maximum": BLOB_BYTES_MAX}),
            Parameter(name="length", words="How many bytes.", schema=WHOLE | {"maximum": 16 * 1024 * 1024}),
        ),
        gives="Bytes",
        media=MEDIA_TYPE,
    ),
)
