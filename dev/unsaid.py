"""Words of closed sets that no committed run says, each with the reason: planned with a part, chosen by whoever sets a
session up, or said in a moment that a run would be long for. A word that is none of these is undeclared instead."""

from __future__ import annotations

UNSAID: dict[str, str] = {
    "Auth=token": "said of the clients of a server, which no run here goes through",
    "Auth=os_user": "said by the command line, which no run here goes through",
    "CauseKind=unknown": "the default of a field that is always given",
    "FailureKind=tool_timed_out": "what a client's own tool is told; in a log it is tool.timed_out",
    "FailureKind=tool_unavailable": "said if the code of a tool is missing in the process that runs it",
    "ItemRef.kind": "the kinds of items that a history can be restored to",
    "ToolSettled.outcome": "chosen by a person",
    "QuestionWithdrawn.reason=unknown_outcome": "a process that died while its tool asked a person",
    "SignalDisposed.busy=sleeping": "a signal to a session that waits for a time",
    "SignalDisposed.busy=people": "a signal to a session that waits for people",
    "OccurrenceSkipped.reason": "times that came while nobody was there, or more than may wait",
    "Misfire": "chosen by whoever plans a schedule",
    "Overlap": "chosen by whoever plans a schedule",
    "ChildMoved.status=sleeping": "a child that waits for a time",
    "ChildFinished.status=timeout": "a child whose budget of time has run out",
    "Isolation=shared": "said by leaving it out",
    "Role": "chosen by whoever sets an agent up",
    "RoleMeant": "chosen by whoever writes a policy",
    "Trust": "chosen by whoever writes a policy",
    "Attend": "chosen by whoever sets an agent up",
    "SignalDisposed.disposition=dropped": "signals beyond the most that may wait",
    "CompactionFailed.reason=budget": "a budget that ends between two attempts of a summary",
    "ContextTruncated.reason=overflow": "a provider that overflows again after a summary",
    "StreamTruncated.reason=disconnected": "a reader that is a thousand records behind",
    "StorePaused.reason": "a disk that is full",
    "HookPoint=session_start": "observers hear of it before anybody can read the session",
    "Changed=grant": "a standing approval was revoked while a call that it allowed waited",
    "Changed=sandbox": "another sandbox let a call wait that had been allowed",
}
"""By set and word, by field and word, by field, or by set."""


def excused(names: tuple[str, ...], word: str) -> bool:
    """Whether a word of a field, or of the set under any of these names, is known to be said by no run."""
    return any(name in UNSAID or f"{name}={word}" in UNSAID for name in names)
