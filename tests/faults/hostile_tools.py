"""Tools that do what tools should not, at the top of a module, so that a worker finds them by their names."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import windlass
from windlass.events.values.blocks import BlobRef, Image
from windlass.tools.context import Progress, ToolContext, ToolError


class Base(BaseException):
    """Not even an exception."""


def overflow(n: int = 0) -> int:
    return overflow(n + 1) + 1


ERRORS: dict[str, Any] = {
    "exception": lambda: ValueError("secret"),
    "base": lambda: Base("secret"),
    "system_exit": lambda: SystemExit("secret"),
    "keyboard_interrupt": lambda: KeyboardInterrupt("secret"),
    "generator_exit": lambda: GeneratorExit("secret"),
    "memory": lambda: MemoryError("secret"),
    "cancelled": lambda: asyncio.CancelledError("secret"),
    "group": lambda: ExceptionGroup("secret", [ValueError("secret")]),
}


def raises(error: str) -> None:
    "Raise."
    if error == "recursion":
        overflow()
    raise ERRORS[error]()


async def raises_async(error: str) -> None:
    "Raise."
    await asyncio.sleep(0)
    if error == "recursion":
        overflow()
    raise ERRORS[error]()


def raises_generating(error: str) -> Iterator[str]:
    "Raise."
    yield "some"
    if error == "recursion":
        overflow()
    raise ERRORS[error]()


def tells() -> str:
    "Tell the model."
    raise ToolError("no city 'Rome' here", code="no_city", hint="known is: Paris")


def told(path: str) -> None:
    """Leaves word of which process this is, for a test that waits for it."""
    with open(path + ".part", "w") as file:
        file.write(f"{os.getpid()}\n")
    os.rename(path + ".part", path)


def starts_and_hangs(pid: str) -> str:
    "Start a process that clears its environment and leaves its session, and sleep for ever."
    line = f"exec >/dev/null 2>&1 </dev/null; echo $$ > {pid}.part; mv {pid}.part {pid}; exec sleep 600"
    subprocess.Popen(["setsid", "sh", "-c", line], env={"PATH": "/usr/bin:/bin"})
    while True:
        time.sleep(0.05)


def needs_what_is_not_there(ctx: ToolContext, what: str) -> str:
    "Use what a worker does not have."
    return ctx.secret("key") if what == "secret" else str(ctx.jobs.host)  # type: ignore[union-attr]


def hangs(pid: str) -> str:
    "Sleep for ever."
    told(pid)
    while True:
        time.sleep(0.05)


async def hangs_async(pid: str) -> str:
    "Sleep for ever."
    told(pid)
    await asyncio.sleep(600)
    return "never"


async def ignores_cancel(pid: str) -> str:
    "Sleep for ever, whoever asks."
    told(pid)
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


def computes(pid: str) -> int:
    "Compute for ever."
    told(pid)
    n = 0
    while True:
        n += 1


def holds_everything(pid: str) -> int:
    "Compute for ever without giving another thread its turn."
    told(pid)
    return sum(range(10**15))


def leaves_children(pids: str, kind: str) -> str:
    "Leave processes behind."
    code = "import os,sys,time\n"
    if kind == "daemon":
        code += "os.setsid()\nif os.fork(): os._exit(0)\n"
    code += "open(sys.argv[1]+'.part','w').write(f'{os.getpid()}\\n')\n"
    code += "os.rename(sys.argv[1]+'.part',sys.argv[1])\ntime.sleep(600)\n"
    child = subprocess.Popen([sys.executable, "-c", code, pids])
    while not os.path.exists(pids):
        time.sleep(0.005)
    child.poll()
    return "left"


def prints(text: str, times: int = 1) -> str:
    "Print."
    for _ in range(times):
        print(text, flush=True)
    os.write(1, b"raw \xff bytes\n")
    os.write(2, b"errors too\n")
    return "printed"


def writes_much(size: int) -> Iterator[str]:
    "Write much."
    piece = "0123456789" * 1_000
    for _ in range(size // len(piece)):
        yield piece


async def writes_much_async(size: int) -> AsyncIterator[str]:
    "Write much."
    piece = "0123456789" * 1_000
    for _ in range(size // len(piece)):
        yield piece


def returns_bytes() -> bytes:
    "Bytes that are no text."
    return b"\xff\xfe\x00 and \xc3\x28 more"


def returns_surrogate() -> str:
    "Text that UTF-8 cannot carry."
    return "a\ud800b\x1b]0;title\x07\u202e\u2028"


def returns_strange(kind: str) -> Any:
    "Something without a form."
    cycle: list[Any] = []
    cycle.append(cycle)
    return {"object": object(), "cycle": cycle, "nan": float("nan"), "huge": 10**5000, "inner": {"a": b"\xff"}}[kind]


def changes_args(items: list[int]) -> int:
    "Change what was given."
    items.append(7)
    return len(items)


def changes_process(where: str) -> str:
    "Change the process."
    os.chdir(where)
    os.umask(0o777)
    os.environ["CHANGED"] = "yes"
    return "changed"


def state() -> dict[str, Any]:
    "What the process is like."
    return {"folder": os.getcwd(), "changed": os.environ.get("CHANGED"), "pid": os.getpid()}


def environment() -> dict[str, str]:
    "All variables."
    return dict(os.environ)


def ends_itself(how: str) -> str:
    "End the process."
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), getattr(signal, how))
    time.sleep(60)
    return "alive"


def ends_once(marker: str) -> str:
    "End the process the first time."
    if not os.path.exists(marker):
        with open(marker, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return "second"


def counts(path: str) -> str:
    "Count."
    with open(path, "a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def bombs() -> str:
    "Fork until stopped."
    while True:
        try:
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
        except OSError:
            time.sleep(0.01)


def eats_memory() -> int:
    "Take all the memory."
    held = []
    while True:
        held.append(bytearray(64 * 1024 * 1024))


def fills_disk(path: str) -> int:
    "Write without end."
    with open(path, "wb") as file:
        while True:
            file.write(bytes(1024 * 1024))


def leaks_files() -> int:
    "Open files without end."
    held = []
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))


async def uses_context(ctx: ToolContext) -> dict[str, Any]:
    "Everything that a context can do."
    ctx.progress("half", fraction=0.5)
    ctx.note("seen", n=1)
    ctx.mark("private:payroll")
    await ctx.keep([("a.txt", None, b"\xff")])
    ctx.changed("a.txt", "create", lines_added=2)
    answer = await ctx.ask("Which?", options=["a", "b"])
    model = await ctx.model("Say hi.")
    ran = await ctx.run(["/bin/sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"\xffin")
    await ctx.sandbox.write("f.bin", b"\x00\xff")
    return {
        "who": [ctx.session, ctx.call_id, ctx.tool, ctx.agent, ctx.run_id, ctx.epoch, ctx.attempt, ctx.depth],
        "key": ctx.idempotency_key,
        "exclude": list(ctx.exclude),
        "cancelled": ctx.cancelled,
        "answer": answer.text,
        "model": model.text,
        "ran": [ran.exit_code, ran.stdout.head.hex(), ran.stderr.text],
        "file": (await ctx.sandbox.read("f.bin")).hex(),
        "list": list(await ctx.sandbox.list()),
        "box": (await ctx.sandbox.capabilities()).name,
    }


def uses_context_sync(ctx: ToolContext) -> str:
    "The same from a plain function."
    ctx.progress("at it")
    return ctx.wait(ctx.ask("Which?")).text + ctx.wait(ctx.run(["echo", "hi"])).stdout.text


def suspends(ctx: ToolContext) -> str:
    "Park."
    ctx.suspend({"ticket": 7}, note="waits")


def runs_for_ever(ctx: ToolContext, pid: str, mark: str) -> int:
    "Run a program that never ends, and wait for it."
    words = f"echo $$ > {pid}.part; mv {pid}.part {pid}; setsid sleep 600 & sleep 600"
    return ctx.wait(ctx.run(["/bin/sh", "-c", words], env={"MARK": mark})).exit_code


def looks_at_its_flag(ctx: ToolContext, pid: str) -> str:
    "Stop when told."
    told(pid)
    while not ctx.wait_cancelled(0.01):
        pass
    told(pid + ".stopped")
    return "stopped"


async def cleans_up(pid: str) -> str:
    "Clean up when cancelled."
    try:
        told(pid)
        await asyncio.sleep(600)
    finally:
        told(pid + ".clean")
    return "never"


def yields() -> Iterator[Any]:
    "Progress, texts and a value."
    yield Progress(message="at it", fraction=0.5)
    yield "one "
    yield "two"
    yield {"three": 3}


def add(a: int, b: int = 2) -> int:
    "Add."
    return a + b


class Kit:
    """Class methods are found by their names too."""

    @windlass.tool(plane="process")
    @staticmethod
    def still(text: str) -> str:
        "Say it."
        return text.upper()

    @classmethod
    def shared(cls, text: str) -> str:
        "Say it."
        return f"{cls.__name__} {text}"

    def own(self, text: str) -> str:
        "Say it."
        return text


@windlass.tool(plane="process", contract="pure", timeout_ms=60_000)
def decorated(a: int, b: int = 2) -> int:
    "Add."
    return a + b


def speaks_itself(data: str) -> str:
    "Write to every file that is open, as if it were the worker."
    for fd in range(3, 64):
        try:
            os.write(fd, bytes.fromhex(data))
        except OSError:
            continue
    time.sleep(30)
    return "unheard"


def names_bytes(digest: str) -> Any:
    "Return bytes of somebody else."
    return Image(media_type="image/png", blob=BlobRef(digest=digest, size=10, media_type="image/png"))
