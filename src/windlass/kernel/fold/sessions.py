"""The session itself: how its events change what it is set up to be."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events import sessions
from windlass.events.base import Event
from windlass.events.specs import Terms
from windlass.kernel import state as st
from windlass.kernel.state import State, bounded

from .accounts import spend_lost
from .history import dirty, push, replace_history
from .tools import set_tools


def session_started(state: State, event: sessions.SessionStarted) -> None:
    assert isinstance(state.phase, st.New), "the session has started before"
    setup = event.setup
    state.session_id = event.session_id
    state.epoch = event.epoch
    state.started_ms = state.now_ms
    state.setup_seq = state.seq
    state.phase = st.Idle()
    state.agent, state.model, state.policy = setup.agent, setup.model, setup.policy
    state.limits, state.run_limits, state.settings = setup.limits, setup.run_limits, setup.settings
    state.mode, state.routing = setup.mode, setup.routing
    state.terms = Terms(
        model=setup.model,
        policy=setup.policy,
        limits=setup.limits,
        run_limits=setup.run_limits,
        settings=setup.settings,
        mode=setup.mode,
    )
    set_tools(state, {spec.name: spec for spec in setup.tools})
    state.title, state.metadata = event.title, dict(event.metadata)
    state.workspace = event.workspace
    state.parent_id, state.root_id = event.parent_id, event.root_id
    state.scope, state.depth = event.scope, event.depth
    state.knowledge_tokens = event.knowledge_tokens
    for ref in event.imported:
        push(state, msgspec.structs.replace(ref, seq=state.seq))


def session_resumed(state: State, event: sessions.SessionResumed) -> None:
    assert event.epoch > state.epoch, "a resumed session has a newer epoch"
    state.epoch = event.epoch
    if event.workspace is not None:
        state.workspace = event.workspace
    if event.tools is not None:  # its content tells of them; the content itself may be erased by now
        state.setup_seq = state.seq
    if event.knowledge_tokens is not None and event.knowledge_tokens != state.knowledge_tokens:
        state.knowledge_tokens = event.knowledge_tokens
        dirty(state, "instructions")
    for request in list(state.requests.values()):
        # Its outcome will never reach the log. What it may have cost is booked before anything is asked for again.
        spend_lost(state, request)
        del state.requests[request.request_id]
    if state.active:
        # The new owner has its own people; they are asked again, under the same ids.
        for ask in state.asks.values():
            ask.missed = False
        for call in state.calls.values():
            call.missed = False


def agent_changed(state: State, event: sessions.AgentChanged) -> None:
    state.agent = event.agent


def session_forked(state: State, event: sessions.SessionForked) -> None:
    state.session_id = event.session_id
    state.epoch = event.epoch
    state.parent_id = None
    state.paged = []  # the origin hands its own pages over


def nothing(state: State, event: Event) -> None:
    """Facts and decisions that are for readers only."""


def content_erased(state: State, event: sessions.ContentErased) -> None:
    if any(ref.seq == event.seq for ref in state.history):
        dirty(state, "erasure")


def workspace_changed(state: State, event: sessions.WorkspaceChanged) -> None:
    state.workspace = event.workspace


def files_changed(state: State, event: sessions.FilesChanged) -> None:
    for change in event.changes:
        state.code.lines_added += change.lines_added
        state.code.lines_removed += change.lines_removed
        state.code.files[change.path] = True
    bounded(state.code.files, st.FILES_MAX)


def model_changed(state: State, event: sessions.ModelChanged) -> None:
    if event.model.name != state.model.name:
        state.measured_tokens = 0
        dirty(state, "model")
    state.model = event.model
    if event.reason == "resume":
        now_bound(state, model=event.model)


def mode_changed(state: State, event: sessions.ModeChanged) -> None:
    state.mode = event.mode
    if event.reason == "resume":
        now_bound(state, mode=event.mode)


def title_changed(state: State, event: sessions.TitleChanged) -> None:
    state.title = event.title


def metadata_changed(state: State, event: sessions.MetadataChanged) -> None:
    for key, value in event.metadata.items():
        if value is None:
            state.metadata.pop(key, None)
        else:
            state.metadata[key] = value
    bounded(state.metadata, st.METADATA_MAX)


def settings_changed(state: State, event: sessions.SettingsChanged) -> None:
    state.settings = event.settings
    if event.reason == "resume":
        now_bound(state, settings=event.settings)


def policy_changed(state: State, event: sessions.PolicyChanged) -> None:
    state.policy = event.policy
    now_bound(state, policy=event.policy)


def limits_changed(state: State, event: sessions.LimitsChanged) -> None:
    state.limits, state.run_limits = event.limits, event.run_limits
    now_bound(state, limits=event.limits, run_limits=event.run_limits)


def now_bound(state: State, **terms: Any) -> None:
    """Remembers what the agent's code says, so that only what it changes later is a change."""
    assert state.terms is not None
    state.terms = msgspec.structs.replace(state.terms, **terms)


def task_changed(state: State, event: sessions.TaskChanged) -> None:
    state.task = event.task


def pins_changed(state: State, event: sessions.PinsChanged) -> None:
    for seq in event.pinned:
        state.pinned[seq] = True
    for seq in event.unpinned:
        state.pinned.pop(seq, None)


def task_completed(state: State, event: sessions.TaskCompleted) -> None:
    if state.run is not None:
        state.run.task_done = True


def instructions_rendered(state: State, event: sessions.InstructionsRendered) -> None:
    if state.instructions_digest and event.digest != state.instructions_digest:
        dirty(state, "instructions")
    state.instructions_seq = state.seq
    state.instructions_digest = event.digest
    state.instructions_tokens = event.tokens


def session_rewound(state: State, event: sessions.SessionRewound) -> None:
    replace_history(state, list(event.history))
    # Which compactions the earlier history had seen is no longer told.
    state.compaction.count = 0
    state.compaction.log.clear()
    dirty(state, "rewind")
    state.resumable = False
