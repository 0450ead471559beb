"""A provider that costs its clients as little as can be: prepared bytes from a process of its own.

`/<turns>/chat/completions` asks for the tool so many times and then answers; `/long` streams 40,000 words. What does
not ask for a stream gets the same answer whole.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

SERVER = """
import asyncio, json, sys
from aiohttp import web

def event(finish=None, **delta):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\\n\\n"

COUNTS = {"prompt_tokens": 9, "completion_tokens": 40}
USAGE = {"id": "chatcmpl-1", "model": "m", "choices": [], "usage": COUNTS}
TAIL = b"data: " + json.dumps(USAGE).encode() + b"\\n\\ndata: [DONE]\\n\\n"
SAID = [f" word{n}" for n in range(20)]
WORDS = b"".join(event(content=word) for word in SAID)
LONG = b"".join(event(content=f" word{n}") for n in range(40000)) + event("stop") + TAIL
DONE = WORDS + event("stop") + TAIL

def call(number):
    function = {"name": "read", "arguments": json.dumps({"path": f"/srv/data/{number}.txt"})}
    return {"id": f"call-{number}", "type": "function", "function": function}

def asks(number):
    return WORDS + event(tool_calls=[{"index": 0, **call(number)}]) + event("tool_calls") + TAIL

def whole(number, turns):
    message, finish = {"role": "assistant", "content": "".join(SAID)}, "stop"
    if number < turns:
        message["tool_calls"], finish = [call(number)], "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    answer = {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": COUNTS}
    return json.dumps(answer).encode()

async def answer(request):
    body = await request.read()
    turns = request.match_info["turns"]
    done = body.count(b'"role":"tool"') + body.count(b'"role": "tool"')
    if b'"stream":true' not in body and b'"stream": true' not in body:
        return web.Response(body=whole(done, int(turns)), content_type="application/json")
    if turns == "long":
        reply = LONG
    else:
        reply = asks(done) if done < int(turns) else DONE
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for at in range(0, len(reply), 65536):
        await response.write(reply[at : at + 65536])
    await response.write_eof()
    return response

async def main():
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/{turns}/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.contextmanager
def serving() -> Iterator[int]:
    """The server, as long as it is needed; gives its port."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline())
        finally:
            server.kill()
