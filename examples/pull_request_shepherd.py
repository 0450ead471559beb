"""A pull request that is looked after: written, checked by a program again and again, merged if a person agrees.

Offline: the model is scripted, and what would be a forge is a folder with a few files.
"""

import asyncio
import pathlib

import windlass
from windlass import machines
from windlass.testing import ScriptedModel

SHEPHERD = machines.Machine(
    "pull_request",
    [
        machines.agent("implement", "Implement {input.task}.", next="open"),
        machines.script("open", ["sh", "-c", 'echo "$INPUT_OUTPUT" > pull_request.txt'], next="checks"),
        machines.poll("checks", ["test", "-e", "green"], every="1s", give_up="2h", next="review", on_failure="stuck"),
        machines.park("review", "The checks of {input.task} are green. Merge?", next=["merge", "implement"]),
        machines.script("merge", ["mv", "pull_request.txt", "merged.txt"], next="merged"),
        machines.completed("merged", "it is merged"),
        machines.failed("stuck", "its checks never became green"),
    ],
    when="a change is to be made and merged",
)


async def main() -> None:
    here = pathlib.Path.cwd()
    model = ScriptedModel(["I fixed the timeout in client.py."])
    agent = windlass.Agent("shepherd", model, machine=SHEPHERD)
    async with windlass.open(here / "work.db", agents=[agent], poll_ms=20) as runtime:
        session = await runtime.session(agent, "pr-7", workspace=here)
        machine = machines.SessionMachine(session)
        result = await session.result(await machine.start({"task": "the timeout"}))
        print(f"{result.status} in {(await machine.view()).state}")
        (here / "green").touch()
        while not (asked := await session.questions()):
            await asyncio.sleep(0.02)
        print(asked[0].body.questions[0].question)
        answered = await session.answer(asked[0].question_id, "merge")
        await session.result(answered)
        view = await machine.view()
        print(f"{view.outcome}: {view.reason}")
        print(" -> ".join(view.way))
        print((here / "merged.txt").read_text().strip())
        print(machines.mermaid(SHEPHERD.spec, view.state).splitlines()[0])


if __name__ == "__main__":
    asyncio.run(main())
