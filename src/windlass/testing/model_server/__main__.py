"""The model server as a command, for testing any agent offline."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from windlass.events.errors import UsageError
from windlass.testing.model_server.rules.profiles import PROFILES

from .script_file import read_script
from .server import ModelServer


def arguments(command: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=command,
        description="A scripted, validating model provider on loopback. Prints its address, then serves until stopped.",
    )
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 picks a free one")
    parser.add_argument(
        "--script",
        type=Path,
        help="JSON file with a list of answers; without it the prompt is echoed",
    )
    parser.add_argument("--key", help="demand this key of every request")
    parser.add_argument("--profile", default="", choices=["", *sorted(PROFILES)], help="endpoint to imitate")
    parser.add_argument("--window-tokens", type=int, help="context window")
    parser.add_argument("--no-validate", action="store_true", help="accept requests that the vendor would refuse")
    return parser.parse_args()


async def serve(options: argparse.Namespace) -> None:
    script = read_script(options.script) if options.script else None
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
    try:
        asyncio.run(serve(arguments(command)))
    except UsageError as error:
        sys.exit(f"{command}: {error}")


if __name__ == "__main__":
    main("python -m windlass.testing.model_server")
