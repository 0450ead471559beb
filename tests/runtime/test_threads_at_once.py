"""Programs that run agents in several threads at once, from their first line on."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import threading
import windlass
from windlass.testing import ScriptedModel, call

@windlass.tool(contract="pure")
async def look(ctx: windlass.ToolContext, q: str) -> str:
    "Look."
    return q

def one(number):
    model = ScriptedModel([[call("look", q="x")], f"answer {number}"])
    agent = windlass.Agent(f"a{number}", model=model, tools=[look], policy=windlass.Policy([windlass.allow("look")]))
    print(agent.run_sync("hi").text)

threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
PROCESSES = 6
"""Half of them crashed while types were made known in two threads at once; the others were lucky."""


def test_agents_may_begin_in_several_threads_at_once():
    begun = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    for process in begun:
        out, err = process.communicate()
        assert (process.returncode, sorted(out.split("\n")), err) == (0, ["", *(f"answer {n}" for n in range(4))], "")
