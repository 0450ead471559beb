"""JSON-RPC as A2A has it: a request read strictly, a result, and what went wrong by its number."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.errors import WindlassError
from windlass.protocol.wire_commands import WireError, read_object
from windlass.server.http_answer import Answer, told
from windlass.server.http_call import Call
from windlass.server.problems import Problem, problem_of

Json = dict[str, Any]

PARSE, REQUEST, METHOD, PARAMS = -32700, -32600, -32601, -32602
NO_TASK, NOT_CANCELABLE, NO_PUSH, UNSUPPORTED, NO_CARD, VERSION = -32001, -32002, -32003, -32004, -32007, -32009
BY_STATUS = {400: PARAMS, 404: NO_TASK, 409: UNSUPPORTED, 422: PARAMS}
"""What a status means to these clients. With every other one the request itself has failed."""


class RpcRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request: a method, and what it is given."""

    jsonrpc: str
    method: str
    id: str | int | None = None
    params: Json = {}


class RpcFailed(WindlassError):
    """A method did not do what it was asked, and this is why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


async def read_request(call: Call) -> RpcRequest:
    """The request that is sent. Raises `RpcFailed` for what is none."""
    data = await call.json_bytes(call.limits.blob_bytes)
    try:
        request = msgspec.convert(read_object(data or b"{}"), RpcRequest)
    except WireError as error:
        raise RpcFailed(PARSE, str(error)) from None
    except msgspec.ValidationError as error:
        raise RpcFailed(REQUEST, str(error)) from None
    if request.jsonrpc != "2.0":
        raise RpcFailed(REQUEST, "$.jsonrpc: this speaks JSON-RPC 2.0")
    return request


def result(name: str | int | None, value: Any) -> Json:
    """What a method gave."""
    return {"jsonrpc": "2.0", "id": name, "result": value}


def error(name: str | int | None, failed: Exception) -> Json:
    """Why it gave nothing. Raises the failure again if the request itself has failed."""
    if isinstance(failed, RpcFailed):
        code, message, data = failed.code, str(failed), {}
    else:
        body, _ = problem_of(failed)
        if body.status not in BY_STATUS:
            raise failed
        code, message, data = BY_STATUS[body.status], body.detail, {"code": body.code, "path": body.path}
    about = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": data.get("code") or "failed"}]
    about[0] |= {"domain": "windlass", "metadata": {key: value for key, value in data.items() if value}}  # type: ignore[dict-item]
    return {"jsonrpc": "2.0", "id": name, "error": {"code": code, "message": message, "data": about}}


def answered(name: str | int | None, failed: Problem | WindlassError) -> Answer:
    """The same as an answer."""
    return told(error(name, failed))
