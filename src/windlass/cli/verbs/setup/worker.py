"""`windlass worker`: offers a sandbox beneath a folder of this machine to runtimes elsewhere, over HTTP.

Thin: it reads the token, opens the server and waits."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.tools.sandboxes.sandbox import SandboxKind

EXAMPLES = """examples:
  windlass worker --root ./work --token-file worker.token              on loopback, on a free port that it prints
  windlass worker --root ./work --token-file worker.token --port 8377  on a port of your choice
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("--root", required=True, metavar="DIR", help="the folder that it offers; nothing outside of it")
    parser.add_argument(
        "--token-file",
        required=True,
        metavar="FILE",
        help="holds the token that every request must know; made, with a new token, if it is not there",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port (a free one, which is printed)")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name under which it may be asked, such as that of a proxy before it (may be repeated)",
    )
    parser.add_argument(
        "--sandbox",
        choices=tuple(KINDS),
        default="local",
        help="what its processes are held to: local, which is to nothing (default), or another kind",
    )


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    from windlass.events.errors import UsageError

    if not os.path.isdir(args.root):
        raise UsageError(f"--root {args.root}: there is no such folder")
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port {args.port}: give a number from 0 to 65535")
    token = read_token(args.token_file)
    return asyncio.run(_serve(args, token))


async def _serve(args: argparse.Namespace, token: str) -> int:
    import asyncio
    import signal

    from windlass.cli.terminal.text import tell
    from windlass.tools.sandboxes.remote.server import LOOPBACK, WorkerServer

    server = WorkerServer(
        args.root, token, KINDS[args.sandbox](), host=args.host, port=args.port, names=tuple(args.name)
    )
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        await server.start()
        tell(f"listening on {server.url}")
        if args.host not in LOOPBACK:
            tell("whoever can read this network reads the token and all data: put TLS before it")
        await stopped.wait()
    finally:
        await server.close()
    return 0


def read_token(path: str) -> str:
    """The token in a file that only its owner can read; a new one if there is no such file. Raises `UsageError`."""
    from windlass.events.errors import UsageError

    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC), encoding="ascii") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise UsageError(f"{path}: others can read the token: chmod 600 {path}")
            return file.read(4096).strip()
    except FileNotFoundError:
        return _new_token(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the token cannot be read: {error}") from None


def _new_token(path: str) -> str:
    import secrets

    from windlass.events.errors import UsageError

    token = secrets.token_urlsafe(32)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(token + "\n")
    except OSError as error:
        raise UsageError(f"{path}: no token can be written there: {error.strerror}") from None
    return token


def _local() -> SandboxKind:
    from windlass.tools.sandboxes.local import LocalSandboxes

    return LocalSandboxes()


def _bubblewrap() -> SandboxKind:
    from windlass.events.errors import UsageError
    from windlass.tools.sandboxes.bubblewrap import BubblewrapSandboxes

    kind = BubblewrapSandboxes()
    if (problem := kind.problem()) is not None:
        raise UsageError(f"--sandbox bubblewrap: {problem}")
    return kind


def _landlock() -> SandboxKind:
    from windlass.events.errors import UsageError
    from windlass.tools.sandboxes.landlock import LandlockSandboxes

    kind = LandlockSandboxes()
    if (problem := kind.problem()) is not None:
        raise UsageError(f"--sandbox landlock: {problem}")
    return kind


KINDS: dict[str, Callable[[], SandboxKind]] = {"local": _local, "bubblewrap": _bubblewrap, "landlock": _landlock}
"""The kinds of sandboxes that a worker can offer, by name."""
