"""A caller of `windlass duet`: a client in a process of its own, over stdio."""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from queue import Empty, Queue
from typing import Any

ROOT = pathlib.Path(__file__).parents[3]
AGENTS = pathlib.Path(__file__).parent / "agents.py"
TERMINALS = ("complete", "ask", "interrupted", "sleep")
WAIT_S = 200.0
"""How long anything may take on a machine that is very busy."""
Event = dict[str, Any]


def do(*replies: Any) -> str:
    """A prompt that has the model say these replies."""
    return f"do {json.dumps(replies)}"


def calls(tool: str, **args: Any) -> dict[str, Any]:
    """A reply that calls a tool."""
    return {"call": tool, "args": args}


class Caller:
    """The program at the other end of the pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.told: list[Event] = []
        """All that was told so far."""
        self._lines: Queue[bytes] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, kind: str, **fields: Any) -> None:
        self.send_line(json.dumps({"type": kind, **fields}).encode())

    def send_line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def prompt(self, text: str, behavior: str = "steer", **more: Any) -> None:
        self.send("prompt", message=text, behavior=behavior, **more)

    def next(self) -> Event | None:
        """The next event; None at the end of the stream."""
        try:
            line = self._lines.get(timeout=WAIT_S)
        except Empty:
            raise AssertionError(f"nothing came any more behind {self.told[-3:]}") from None
        if not line:
            return None
        event: Event = json.loads(line)
        self.told.append(event)
        return event

    def until(self, kind: str, **fields: Any) -> Event:
        """Reads until an event of a type with these fields."""
        while (event := self.next()) is not None:
            if event["type"] == kind and all(event.get(name) == value for name, value in fields.items()):
                return event
            assert kind in TERMINALS or event["type"] not in TERMINALS, f"the turn ended before {kind}: {event}"
        raise AssertionError(f"the stream ended before {kind}: {self.told[-5:]}")

    def terminal(self) -> Event:
        """Reads until the turn has ended."""
        while (event := self.next()) is not None:
            if event["type"] in TERMINALS:
                return event
        raise AssertionError(f"the stream ended before the turn: {self.told[-5:]}")

    def taken(self) -> None:
        """Waits until all commands up to here were taken: they are taken in their order, and this one is answered."""
        self.send("nothing of this name")
        while (event := self.next()) is not None:
            if event["type"] == "system" and "nothing of this name" in event["message"]:
                return
            assert event["type"] not in TERMINALS, f"the turn ended before a command was taken: {event}"
        raise AssertionError("the stream ended")

    def steps(self, kind: str) -> list[Event]:
        """The steps of a kind that were told so far."""
        return [event["step"] for event in self.told if event["type"] == "step" and event["step"]["type"] == kind]

    def running(self, tool: str) -> str:
        """Reads until a call of a tool has begun, on record. Gives its id."""
        while (event := self.next()) is not None:
            step = event.get("step", {})
            if (step.get("toolName"), step.get("status")) == (tool, "running"):
                return str(step["toolCallId"])
        raise AssertionError(f"no call of {tool} began: {self.told[-5:]}")

    def states(self) -> list[str]:
        """The states of the machine that were told so far."""
        return [event["currentState"] for event in self.told if event["type"] == "state_machine"]

    def leave(self) -> int:
        """Closes standard input, and waits for the process to end. Nothing but what was read may be told."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        while (event := self.next()) is not None:
            assert event["type"] not in TERMINALS, f"a second terminal: {event}"
        return self.process.wait(WAIT_S)

    def kill(self) -> None:
        """Ends the process without a word to it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_S)


@contextlib.contextmanager
def caller(folder: pathlib.Path, *more: str, agents: pathlib.Path = AGENTS) -> Iterator[Caller]:
    """A process that was started and told nothing yet; it works in a folder, and keeps its sessions there."""
    words = [sys.executable, "-m", "windlass.cli.main", "duet", str(agents), "--store", "kept.db", *more]
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Caller(process)
        finally:
            process.kill()


@contextlib.contextmanager
def started(folder: pathlib.Path, *more: str, **fields: Any) -> Iterator[Caller]:
    """The same behind `start`."""
    with caller(folder, *more) as client:
        client.send("start", **fields)
        assert client.until("turn_started")["state"]["agent"]["messages"] is not None
        yield client


STATE_FIELDS = {"status", "mode", "options", "agent", "followUpQueue", "queuedCommands"}


def check_terminals(client: Caller, count: int) -> list[Event]:
    """Every turn had one terminal, each with the full state and what it used."""
    ends = [event for event in client.told if event["type"] in TERMINALS]
    assert len(ends) == count, [event["type"] for event in ends]
    for event in ends:
        assert set(event["state"]) >= STATE_FIELDS, event["state"]
        assert set(event["usage"]) >= {"inputTokens", "outputTokens"}
    return ends
