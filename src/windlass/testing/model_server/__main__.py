"""The model server as a command, for testing any agent offline."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from .profiles import PROFILES
from .server import ModelServer


def arguments(command: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=command,
        description="A scripted, validating model provider on loopback. Prints its address, then serves until stopped.",
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 picks a free one")
    parser.add_argument("--script", type=Path, help="JSON file with a list of answers; without it the prompt is echoed")
    parser.add_argument("--key", help="demand this key of every request")
    parser.add_argument("--profile", default="", choices=["", *sorted(PROFILES)], help="endpoint to imitate")
    parser.add_argument("--window-tokens", type=int, help="context window")
    parser.add_argument("--no-validate", action="store_true", help="accept requests that the vendor would refuse")
    return parser.parse_args()


async def serve(options: argparse.Namespace) -> None:
    script = json.loads(options.script.read_text("utf-8")) if options.script else None
    server = ModelServer(
        script,
        key=options.key,
        profile=options.profile,
        window_tokens=options.window_tokens,
        validate=not options.no_validate,
        port=options.port,
    )
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with server:
        sys.stdout.write(server.root + "\n")
        sys.stdout.flush()
        await stop.wait()


def main(command: str) -> None:
    """Serves until stopped, as the command line of this process says; `command` is its name in the help."""
    asyncio.run(serve(arguments(command)))


if __name__ == "__main__":
    main("python -m windlass.testing.model_server")
