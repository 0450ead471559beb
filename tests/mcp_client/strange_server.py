"""An MCP server for tests, written by hand so that it starts at once and can misbehave: it hangs, reports, changes, leaves
processes behind, dies, and sends what no server should. What it offers and does is told by files in a folder.

    strange_server.py FOLDER
"""

from __future__ import annotations

import json
import os
import queue
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
ABLE: list[dict[str, Any]] = [
    {"name": name, "inputSchema": NOTHING} for name in ("elicits", "samples", "roots", "logs", "meta")
]
"""What it offers besides if it is told to be `able`: tools that ask something of whoever calls them."""
PAGE = 60
writing = threading.Lock()
answers: dict[str, queue.Queue[dict[str, Any]]] = {}


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
    more = ABLE if told("able") is not None else []
    return json.loads(whole) if whole is not None else [*TOOLS, *more, *json.loads(told("more.json") or "[]")]


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Asks the client something, and gives the whole answer."""
    name = f"{method} {time.monotonic_ns()}"
    answers[name] = queue.Queue()
    note(f"asks {method}")
    send({"id": name, "method": method, "params": params})
    return answers[name].get()


def able(request: dict[str, Any]) -> None:
    """Calls of the tools that only an able server has."""
    params = request["params"]
    match params["name"]:
        case "elicits":
            given = ask("elicitation/create", json.loads(told("elicit.json") or "{}"))
            answer(request, json.dumps(given.get("result") or given.get("error")))
        case "samples":
            given = ask("sampling/createMessage", json.loads(told("sample.json") or "{}"))
            answer(request, json.dumps(given.get("result") or given.get("error")))
        case "roots":
            given = ask("roots/list", {})
            answer(request, json.dumps(given.get("result") or given.get("error")))
        case "logs":
            for level, text in json.loads(told("log.json") or "[]"):
                send({"method": "notifications/message", "params": {"level": level, "logger": "l", "data": text}})
            answer(request, "logged")
        case "meta":
            answer(request, json.dumps(params.get("_meta") or {}))


def resources(request: dict[str, Any]) -> dict[str, Any]:
    """Resources in pages, one template, and what reading gives."""
    params = request.get("params") or {}
    match request["method"]:
        case "resources/list":
            many = int(told("resources") or 3)
            at = int(params.get("cursor") or 0)
            found = [{"uri": f"note://{n}", "name": f"note {n}"} for n in range(at, min(at + PAGE, many))]
            more = {"nextCursor": str(at + PAGE)} if at + PAGE < many else {}
            return {"resources": found, **more}
        case "resources/templates/list":
            return {
                "resourceTemplates": [{"uriTemplate": "day://{date}", "name": "a day", "description": "\u200bof it"}]
            }
    if params["uri"] == "note://blob":
        return {"contents": [{"uri": params["uri"], "mimeType": "application/x-thing", "blob": "AAEC"}]}
    return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": f"the text of {params['uri']}"}]}


def prompts(request: dict[str, Any]) -> dict[str, Any]:
    params = request.get("params") or {}
    if request["method"] == "prompts/list":
        given = [{"name": "language", "required": True}, {"name": "tone"}]
        return {"prompts": [{"name": "greet", "description": "Greets.", "arguments": given}, {"name": "plain"}]}
    text = f"greet in {json.dumps(params.get('arguments') or {}, sort_keys=True)}"
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


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
            text = told("text") or "structured"
            answer(request, text, structuredContent=json.loads(told("structured.json") or "{}"))
        case "raw":
            send({"id": request["id"], **json.loads(told("raw.json") or "{}")})
        case "elicits" | "samples" | "roots" | "logs" | "meta":
            able(request)
        case name:
            answer(request, f"no tool {name}", isError=True)


def flood(request: dict[str, Any]) -> None:
    """Says one thing without end, and listens to nobody meanwhile."""
    about = {"progressToken": request["params"].get("_meta", {}).get("progressToken"), "progress": 1}
    lines = {
        "noise": "x\n" * 1_000,
        "ping": '{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        "progress": json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": about}) + "\n",
    }
    line = lines[told("flood") or "noise"]
    while True:
        sys.stdout.write(line)


def take(request: dict[str, Any]) -> None:
    match request.get("method"):
        case "tools/call" if request["params"]["name"] == "floods":
            flood(request)
        case "initialize":
            info = {"name": "strange", "version": "1"}
            abilities: dict[str, Any] = {"tools": {"listChanged": True}}
            if told("able") is not None:
                abilities |= {"resources": {}, "prompts": {}, "logging": {}}
            note(f"client {json.dumps(request['params']['capabilities'])}")
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
        case "resources/list" | "resources/templates/list" | "resources/read":
            send({"id": request["id"], "result": resources(request)})
        case "prompts/get" if told("slow") is not None:
            note("thinks")
        case "prompts/list" | "prompts/get":
            send({"id": request["id"], "result": prompts(request)})
        case "logging/setLevel":
            note(f"level {request['params']['level']}")
            send({"id": request["id"], "result": {}})
        case None if request.get("id") in answers:
            answers[request["id"]].put(request)
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
