"""Hooks at `after_tool`: they see what a model is about to read of a call or of its job, change it or keep it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from windlass.events.hooks import HookRuling
from windlass.events.tools.calls import ResultBody
from windlass.events.values.blocks import Text, Value

if TYPE_CHECKING:
    from windlass.runtime.hooks.session_hooks import SessionHooks
    from windlass.tools.planes.outcome import Outcome


class RuledText(Value, frozen=True, kw_only=True):
    """What the hooks made of a text: `text` is None if they left it as it was."""

    text: str | None = None
    ok: bool = True
    rulings: tuple[HookRuling, ...] = ()


async def ruled_text(hooks: SessionHooks, call_id: str, tool: str, value: dict[str, Any]) -> RuledText:
    """Asks the hooks of a tool about what came of a call: `ok` and `text`, and of which job if it is one's."""
    if not hooks.current.at("after_tool", tool):
        return RuledText(ok=value["ok"])
    ruled = await hooks.current.run(hooks.moment("after_tool", value, call_id=call_id, tool=tool))
    rulings = tuple(ruled.rulings)
    if ruled.denied is not None:
        told = f"the result is withheld: {ruled.denied.message or ruled.denied.hook_id}"
        return RuledText(text=told, ok=False, rulings=rulings)
    if ruled.changed:
        ok = bool(ruled.value.get("ok", value["ok"]))
        return RuledText(text=str(ruled.value.get("text", "")), ok=ok, rulings=rulings)
    return RuledText(ok=value["ok"], rulings=rulings)


async def ruled_outcome(
    hooks: SessionHooks, call_id: str, tool: str, outcome: Outcome
) -> tuple[Outcome, tuple[HookRuling, ...]]:
    """An outcome as the hooks left it. Of a job that began they rule on what is told; it goes on, and its id stays."""
    if outcome.status not in ("finished", "job") or not hooks.current.at("after_tool", tool):
        return outcome, ()
    job = outcome.job
    about = {"job": {"job_id": job.job_id, "status": "running"}} if job is not None else {}
    ruled = await ruled_text(hooks, call_id, tool, {"ok": outcome.ok, "text": outcome.text, **about})
    if ruled.text is None:
        return outcome, ruled.rulings
    text = ruled.text if job is None else f"{ruled.text}\n[goes on in the background as job {job.job_id}]"
    kept = ResultBody(content=(Text(text=text),), display=outcome.body.content if outcome.body else None)
    return msgspec.structs.replace(outcome, ok=ruled.ok, body=kept, size=len(text.encode())), ruled.rulings
