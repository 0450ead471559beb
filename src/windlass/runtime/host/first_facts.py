"""The first fact under a new owner: a session is started, resumed, or begun as a fork. Only makes them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.events.errors import UsageError
from windlass.events.sessions import SessionForked, SessionResumed, SessionStarted
from windlass.events.values.graphs import FlowGraph
from windlass.events.values.isolation import Worktree
from windlass.events.values.items import HistoryItem
from windlass.events.values.plans import SchedulePlan
from windlass.events.values.setup import SessionOptions
from windlass.kernel import log
from windlass.kernel.parts.setup import METADATA_CHARS_MAX, METADATA_MAX, TITLE_CHARS_MAX
from windlass.runtime.api.imported_history import refs_of
from windlass.runtime.bind.bound_agent import Bound
from windlass.runtime.bind.local_code import LocalCode
from windlass.runtime.bind.mounted_tools import present
from windlass.runtime.bind.session_options import NO_OPTIONS, without_content
from windlass.runtime.owner.owner import Owner
from windlass.runtime.workspace.folder import Place
from windlass.store.base import Key, Origin, Recovered

LOST = "its process ended without giving it back"


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """Whose child a session is, and where in the tree it stands."""

    parent_id: str
    call_id: str
    root_id: str
    scope: str
    depth: int


class Beginning(msgspec.Struct, frozen=True, kw_only=True):
    """What a new session is given."""

    bound: Bound
    title: str = ""
    metadata: dict[str, str] = {}
    history: Sequence[HistoryItem] = ()
    options: SessionOptions = NO_OPTIONS
    labels: tuple[str, ...] = ()
    birth: Birth | None = None
    worktree: Worktree | None = None
    """The worktree that was made for a child."""
    trusted: bool = False
    """Whether its folder is trusted if nobody names one here: a child's is if its parent's is."""
    schedule: SchedulePlan | None = None
    """The plan of a schedule."""
    flow: FlowGraph | None = None
    """The graph of a workflow that a model wrote."""


def checked_words(title: str, metadata: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The title of a new session, cut as a later one would be, and its metadata. Raises `UsageError` if one is no text,
    and for more metadata than a session may have: whoever lists sessions is sent all of it."""
    for what, text in (("its title", title), *(("its metadata", one) for pair in metadata.items() for one in pair)):
        if not isinstance(text, str):
            raise UsageError(f"a session cannot begin like this: {what} is text, not {type(text).__name__}: {text!r}")
    if len(metadata) > METADATA_MAX:
        raise UsageError(f"{len(metadata)} entries of metadata: at most {METADATA_MAX}")
    if any(len(name) + len(value) > METADATA_CHARS_MAX for name, value in metadata.items()):
        raise UsageError(f"one entry of the metadata is at most {METADATA_CHARS_MAX} characters")
    return title[:TITLE_CHARS_MAX], dict(metadata)


def trusted_in(place: Place | None, before: bool | None) -> bool:
    """Whether a session's folder is trusted: as whoever named it here said, else as is on record."""
    named = place is not None and place.folder.names is not None
    return place.folder.trusted if place is not None and named else bool(before)


def started(key: Key, owner: Owner, beginning: Beginning, place: Place | None) -> SessionStarted:
    """A session begins, with an agent that has its options already."""
    bound, birth = beginning.bound, beginning.birth
    trusted = trusted_in(place, beginning.trusted)
    setup = msgspec.structs.replace(bound.setup(trusted=trusted), schedule=beginning.schedule)
    if beginning.flow is not None:
        setup = msgspec.structs.replace(setup, flow=beginning.flow)
    return SessionStarted(
        command_id=f"start:{key.session}",
        session_id=key.session,
        epoch=owner.epoch,
        setup=setup,
        title=beginning.title,
        metadata=beginning.metadata,
        knowledge_tokens=bound.knowledge_tokens(),
        imported=refs_of(beginning.history),
        labels=beginning.labels,
        parent_id=birth.parent_id if birth is not None else None,
        parent_call_id=birth.call_id if birth is not None else None,
        root_id=birth.root_id if birth is not None else None,
        scope=birth.scope if birth is not None else "primary",
        depth=birth.depth if birth is not None else 0,
        producer=f"kernel {log.KERNEL_VERSION}",
        workspace=place.workspace if place is not None else None,
        worktree=beginning.worktree,
        body=msgspec.structs.replace(bound.setup_body(), imported=tuple(beginning.history)),
    )


def resumed(
    owner: Owner, runner: str, bound: Bound, local_code: LocalCode, place: Place | None, died: str = ""
) -> SessionResumed:
    """A session is resumed: by whom, how the owner before was lost, and what is different from what the log has, if
    anything is. `died` is what its driver in this process died of, if it did."""
    state = owner.state
    specs = present(bound, state, local_code)
    now = {spec.name: spec.digest for spec in specs}
    recorded = {name: spec.digest for name, spec in state.toolset.tools.items()}
    options = without_content(bound.options)
    otherwise = options != state.setup.options
    changed = bound.ref.digest != state.setup.agent.digest or now != recorded or otherwise
    terms = bound.terms_in(trusted=trusted_in(place, state.setup.terms.policy.trusted))
    return SessionResumed(
        epoch=owner.epoch,
        runner=runner,
        workspace=place.workspace if place is not None else None,
        agent=bound.ref if changed else None,
        tools=specs if changed else None,
        terms=terms if terms != state.setup.terms else None,
        options=options if otherwise else None,
        knowledge_tokens=bound.knowledge_tokens() if changed else None,
        lost=died or (LOST if owner.lease.lost else None),
        recovered="; ".join(map(_cut_off, owner.lease.recovered)) or None,
        body=bound.setup_body() if changed else None,
    )


def _cut_off(cut: Recovered) -> str:
    return f"{cut.size} bytes behind event {cut.seq}, a write that was never finished, are set aside in {cut.path}"


def forked(
    branch: Key,
    origin: Origin,
    owner: Owner,
    runner: str,
    *,
    keeps_open: bool = False,
    held: SessionOptions | None = None,
) -> SessionForked:
    """A fork begins; `held` is what its origin came to be held to since."""
    return SessionForked(
        session_id=branch.session,
        origin_id=origin.session,
        at_seq=origin.seq,
        origin_hash=origin.hash,
        epoch=owner.epoch,
        by=runner,
        keeps_open=keeps_open,
        unsent=True,
        held=held,
    )
