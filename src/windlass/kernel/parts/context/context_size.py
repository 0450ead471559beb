"""How full the window is, and what of the history could leave it. Computes only.

An exchange is never split: an item of the model and all the results of its calls go together. Pinned items, the last
thing a person said and the newest exchanges stay verbatim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.events.values.setup import ItemRef
from windlass.kernel.parts import budgets

if TYPE_CHECKING:
    from windlass.kernel.state import State


TASK_TOKENS = 256
"""A guess at the rendered task state, if there is one."""


def fixed_tokens(state: State) -> int:
    """What every request carries besides the history."""
    current = state.task.current
    task = TASK_TOKENS if current.goal or current.todos or current.plan or state.signals.shown else 0
    return state.workspace.instructions_tokens + state.setup.knowledge_tokens + state.toolset.tokens + task


def context_tokens(state: State) -> int:
    """How large the next request will be: what the provider counted last time plus what came since, or our estimate
    if that is larger."""
    history, waiting = state.history, state.queue
    arriving = sum([waiting.inputs[seq].tokens for seq in waiting.steering]) if waiting.steering else 0
    pending = sum([ref.tokens for ref in history.notes]) if history.notes else 0
    estimate = fixed_tokens(state) + history.tokens
    if history.measured_tokens:
        since = max(0, history.tokens - history.measured_at_tokens)
        estimate = max(estimate, history.measured_tokens + since)
    return estimate + arriving + pending


def fits(state: State, tokens: int) -> bool:
    """Whether a request of so many tokens and a short answer fit the window, as far as we can tell."""
    model = state.current_model
    return tokens + min(budgets.OUTPUT_TOKENS_MIN, model.max_output_tokens) <= model.window_tokens


def units(items: list[ItemRef]) -> list[list[ItemRef]]:
    """The history in exchanges that stay together: one thing said to the model, or one reply with all its results."""
    exchanges: list[list[ItemRef]] = []
    for ref in items:
        follows = ref.kind == "result" or (ref.kind == "import" and ref.part.endswith("+"))
        if follows and exchanges and exchanges[-1][0].kind in ("assistant", "import"):
            exchanges[-1].append(ref)
        else:
            exchanges.append([ref])
    return exchanges


def older(state: State, keep: int | None = None) -> tuple[list[ItemRef], list[int]]:
    """The items that may leave, and the seqs among them that stay verbatim all the same."""
    exchanges = units(state.history.items)
    keep = state.setup.settings.keep_exchanges if keep is None else keep
    head, tail = exchanges[:-keep], exchanges[-keep:]
    return [ref for unit in head for ref in unit], kept_verbatim(state, head, tail)


def kept_verbatim(state: State, head: list[list[ItemRef]], tail: list[list[ItemRef]]) -> list[int]:
    """What stays verbatim of exchanges that leave: what is pinned, and the last request if none comes after it."""
    leaving = [ref for unit in head for ref in unit]
    kept = {ref.seq for ref in leaving if ref.seq in state.history.pinned}
    if not any(ref.kind == "user" for unit in tail for ref in unit):
        said = [ref.seq for ref in leaving if ref.kind == "user"]
        kept.update(said[-1:])
    return sorted(_whole_units(head, kept))


def _whole_units(exchanges: list[list[ItemRef]], kept: set[int]) -> set[int]:
    """A kept item keeps its exchange: a result without its call, or a call without its result, helps nobody."""
    return {ref.seq for unit in exchanges if any(ref.seq in kept for ref in unit) for ref in unit}


def movable(state: State, keep: int | None = None) -> list[ItemRef]:
    """The items that a compaction would take out; none if all that is left of the past is its summary."""
    leaving, kept = older(state, keep)
    stays = set(kept)
    going = [ref for ref in leaving if ref.seq not in stays]
    return [] if len(going) == 1 and going[0].kind == "summary" else going
