"""An MCP server for tests, written by hand so that it starts at once and can misbehave: it hangs, reports, changes, leaves
processes behind, dies, and sends what no server should. What it offers and does is told by files in a folder.

    strange_server.py FOLDER
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

FOLDER = sys.argv[1]
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
TEXT: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "echo",
        "title": "Says it again",
        "description": "Gives back a text.",
        "inputSchema": TEXT,
        "annotations": {"readOnlyHint": True},
    },
    *({"name": name, "inputSchema": NOTHING} for name in ("reports", "hangs", "dies", "leaves", "changes", "large")),
    {"name": "environment", "inputSchema": NOTHING},
]
writing = threading.Lock()


def path(name: str) -> str:
    return os.path.join(FOLDER, name)


def note(what: str) -> None:
    """Leaves a line in the folder, which a test can wait for."""
    with open(path("notes"), "a") as file:
        file.write(f"{what}\n")


def told(name: str) -> str | None:
    """What a test has written into a file of the folder."""
    try:
        with open(path(name)) as file:
            return file.read()
    except FileNotFoundError:
        return None


def send(message: dict[str, Any]) -> None:
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def answer(request: dict[str, Any], text: str, **more: Any) -> None:
    send({"id": request["id"], "result": {"content": [{"type": "text", "text": text}], **more}})


def listed() -> list[dict[str, Any]]:
    whole = told("tools.json")
    return json.loads(whole) if whole is not None else [*TOOLS, *json.loads(told("more.json") or "[]")]


def page(request: dict[str, Any]) -> dict[str, Any]:
    """The tools; or as many of a list without an end as a page has, with a cursor that moves or sticks."""
    endless = told("endless")
    if endless is None:
        return {"tools": listed()}
    many, words, sticks = json.loads(endless)
    at = int((request.get("params") or {}).get("cursor") or 0)
    tools = [{"name": f"tool_{at}_{n}", "description": "x" * words, "inputSchema": NOTHING} for n in range(many)]
    return {"tools": tools, "nextCursor": "1" if sticks else str(at + 1)}


def call(request: dict[str, Any]) -> None:
    params = request["params"]
    match params["name"]:
        case "echo":
            answer(request, params["arguments"]["text"])
        case "reports":
            token = params["_meta"]["progressToken"]
            for step in (1, 2):
                about = {"progressToken": token, "progress": step, "total": 2, "message": f"step {step}"}
                send({"method": "notifications/progress", "params": about})
            answer(request, "reported")
        case "hangs":
            note(f"hangs {os.getpid()}")
        case "dies":
            note("dies")
            if told("live") is None:
                os.kill(os.getpid(), signal.SIGKILL)
            answer(request, "alive")
        case "leaves":
            answer(request, str(subprocess.Popen(["sleep", "3600"], start_new_session=True).pid))
        case "changes":
            with open(path("more.json"), "w") as file:
                json.dump([{"name": "extra", "inputSchema": NOTHING}], file)
            send({"method": "notifications/tools/list_changed"})
            answer(request, "changed")
        case "large":
            answer(request, "x" * int(told("size") or 0))
        case "environment":
            answer(request, json.dumps(dict(os.environ)))
        case "structured":
            answer(request, "structured", structuredContent=json.loads(told("structured.json") or "{}"))
        case name:
            answer(request, f"no tool {name}", isError=True)


def take(request: dict[str, Any]) -> None:
    match request.get("method"):
        case "initialize":
            info = {"name": "strange", "version": "1"}
            abilities = {"tools": {"listChanged": True}}
            version = request["params"]["protocolVersion"]
            send(
                {
                    "id": request["id"],
                    "result": {"protocolVersion": version, "capabilities": abilities, "serverInfo": info},
                }
            )
        case "tools/list":
            send({"id": request["id"], "result": page(request)})
            note("lists")
            if told("restless") is not None:
                with open(path("more.json"), "w") as file:
                    json.dump([{"name": f"extra_{time.monotonic_ns()}", "inputSchema": NOTHING}], file)
                send({"method": "notifications/tools/list_changed"})
        case "tools/call":
            threading.Thread(target=call, args=(request,), daemon=True).start()
        case "notifications/cancelled":
            note("cancelled")
        case _ if "id" in request and "method" in request:
            send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})


def main() -> None:
    note(f"begins {os.getpid()}")
    print("strange server: this goes to its errors", file=sys.stderr, flush=True)
    if told("broken") is not None:
        print("strange server: it is broken", file=sys.stderr, flush=True)
        sys.exit(3)
    if told("garbage") is not None:
        print("this is no message at all", flush=True)
    if told("silent") is not None:
        signal.pause()
    for line in sys.stdin:
        take(json.loads(line))


if __name__ == "__main__":
    main()
