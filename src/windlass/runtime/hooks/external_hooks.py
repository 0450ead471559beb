"""Hooks that are no Python functions: programs and web addresses, which get the moment and answer as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from typing import Any, Literal

import msgspec

from windlass.events import known_types
from windlass.events.errors import UsageError
from windlass.events.hooks import HookReason
from windlass.tools.sandboxes.sandbox import ENV_ALLOWED, environment

from .hook import PAYLOAD_BYTES_MAX, Allowed, Asked, Changed, Denied, Moment, Said

READ_BYTES = 64 * 1024
END_S = 1.0
"""How long a program that was ended is waited for."""


def read_said(data: bytes) -> Said:
    """What an external hook answered: `{}` if it has nothing to say, `{"decision": "allow"}`, `{"decision": "ask"}`,
    `{"decision": "deny", …}` or `{"value": …}`. Unknown fields are refused: a hook that means something else must not
    pass by accident."""
    if not data.strip():
        return None
    answer = known_types.decode(data, _Answer)
    if answer.decision == "deny":
        return Denied(message=answer.message, reason=answer.reason, fatal=answer.fatal)
    if answer.decision == "ask":
        return Asked(message=answer.message)
    if answer.value is not msgspec.UNSET:
        return Changed(value=answer.value)
    return Allowed(message=answer.message) if answer.decision == "allow" else None


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    decision: Literal["allow", "ask", "deny"] | None = None
    message: str = ""
    reason: HookReason = "policy"
    fatal: bool = False
    value: Any = msgspec.UNSET


class CommandHook:
    """An external program: the moment as JSON on its standard input, its ruling as JSON on its standard output. An
    exit code other than 0 is a failure. Of this process's environment it gets what sandboxed processes get, which holds
    no keys; `env` adds to that."""

    def __init__(self, *argv: str, env: dict[str, str] | None = None) -> None:
        if not argv:
            raise UsageError("a command hook needs a program to run")
        self.argv = argv
        self.env = dict(env or {})
        self.__name__ = argv[0].rsplit("/", 1)[-1]

    async def __call__(self, moment: Moment) -> Said:
        import subprocess

        pipe = subprocess.PIPE
        env = environment(os.environ, ENV_ALLOWED, self.env)
        process = await asyncio.create_subprocess_exec(
            *self.argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
        )
        try:
            _, out, err = await asyncio.gather(
                _feed(process.stdin, msgspec.json.encode(moment)), _read(process.stdout), _read(process.stderr)
            )
            code = await process.wait()
        except BaseException:
            await _end(process)
            raise
        if code != 0:
            raise RuntimeError(f"exit code {code}: {err.decode('utf-8', 'replace')[:500]}")
        return read_said(out)


async def _feed(stream: Any, data: bytes) -> None:
    """Writes to a program, which may well not read it."""
    try:
        stream.write(data)
        await stream.drain()
        stream.close()
    except (BrokenPipeError, ConnectionResetError):
        return


async def _read(stream: Any) -> bytes:
    """All of what somebody answers, within a bound."""
    answer = bytearray()
    while piece := await stream.read(READ_BYTES):
        answer += piece
        if len(answer) > PAYLOAD_BYTES_MAX:
            raise UsageError(f"the hook answered with more than {PAYLOAD_BYTES_MAX} bytes")
    return bytes(answer)


async def _end(process: Any) -> None:
    """Ends a program with all that it started: they would hold its pipes, and nobody would wait for them."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), END_S)
    process._transport.close()  # what left its group may hold the pipes for ever


class HttpHook:
    """An address that is POSTed the moment as JSON and answers with a ruling."""

    def __init__(self, url: str, *, headers: dict[str, str] | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"hook address {url!r} must begin with http:// or https://")
        self.url = url
        self.headers = headers or {}
        self.__name__ = url.split("/")[2]

    async def __call__(self, moment: Moment) -> Said:
        import aiohttp

        headers = {**self.headers, "content-type": "application/json"}
        async with aiohttp.ClientSession() as client:
            async with client.post(
                self.url, data=msgspec.json.encode(moment), headers=headers, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise RuntimeError(f"status {response.status}")
                return read_said(await _read(response.content))


# --- guards that ship ---------------------------------------------------------------------------------------------
