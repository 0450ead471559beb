"""JSON-RPC 2.0 as it is written here: requests read strictly, answers, errors and notifications as lines."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.protocol.wire_commands import WireError, read_object
from windlass.server.problems import problem_of

UNREADABLE = -32700
NO_REQUEST = -32600
NO_METHOD = -32601
WRONG_PARAMS = -32602
FAILED = -32603
PROBLEM = -32000
"""What the server refuses; `data` is the problem, with the code to act on."""

Name = str | int | None
"""What a request is known by; None if it wants no answer."""


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that is asked."""

    jsonrpc: str
    method: str
    id: Name = None
    params: dict[str, Any] = {}


class NotAsked(Exception):
    """A line that is no request: the code to say so with, and the id if one could be read."""

    def __init__(self, code: int, message: str, name: Name = None) -> None:
        super().__init__(message)
        self.code = code
        self.name = name


def read_request(line: bytes) -> Request:
    """The request in a line. Raises `NotAsked`."""
    try:
        plain = read_object(line)
    except WireError as error:
        raise NotAsked(UNREADABLE, str(error)) from None
    given = plain.get("id")
    name = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    try:
        request = msgspec.convert(plain, Request)
    except msgspec.ValidationError as error:
        raise NotAsked(NO_REQUEST, f"this is no request: {error}", name) from None
    if request.jsonrpc != "2.0":
        raise NotAsked(NO_REQUEST, 'write "jsonrpc": "2.0"', name)
    return request


def result_line(name: Name, result: bytes) -> bytes:
    """The answer to a request, its result as JSON."""
    return b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (msgspec.json.encode(name), result)


def error_line(name: Name, code: int, message: str, data: bytes = b"") -> bytes:
    """What went wrong with a request."""
    more = b',"data":%s' % data if data else b""
    words = msgspec.json.encode(message)
    return b'{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s%s}}\n' % (
        msgspec.json.encode(name),
        code,
        words,
        more,
    )


def failure_line(name: Name, error: Exception) -> bytes:
    """An error of the server as the answer to a request: what it is, with the code to act on."""
    body, _ = problem_of(error)
    code = FAILED if body.code == "failed" else PROBLEM
    return error_line(name, code, body.detail, msgspec.json.encode(body))


def notice_line(method: str, params: bytes) -> bytes:
    """Something that is told unasked."""
    return b'{"jsonrpc":"2.0","method":"%s","params":%s}\n' % (method.encode(), params)
