"""Changes of a session's tools on the wire. The status as text is made from the typed one and never read back."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.events.errors import CodecError

from .closed_words import U32, U64, ExternalToolPhase, ToolConfigDomain, ToolConfigOperation, Wire


class ConfigStatus(Wire, frozen=True, kw_only=True, tag_field="kind"):
    """Base of what became of a change."""

    @property
    def text(self) -> str:
        """The status in words."""
        raise NotImplementedError


class BoundaryApplied(ConfigStatus, frozen=True, kw_only=True, tag="boundary_applied"):
    """In force since a boundary between turns."""

    base_changed: bool
    visible_changed: bool
    revision: U64

    @property
    def text(self) -> str:
        base, visible = str(self.base_changed).lower(), str(self.visible_changed).lower()
        return f"boundary_applied(base_changed={base},visible_changed={visible},revision={self.revision})"


class CatalogCounts(ConfigStatus, frozen=True, kw_only=True, tag="deferred_catalog_delta"):
    """How many tools of the catalogue that is searched came and went."""

    added_hidden_count: U64
    removed_hidden_count: U64
    pending_source_count: U64

    @property
    def text(self) -> str:
        added, removed, pending = self.added_hidden_count, self.removed_hidden_count, self.pending_source_count
        return f"deferred_catalog_delta(added_hidden={added},removed_hidden={removed},pending_sources={pending})"


class WarningFailedClosed(ConfigStatus, frozen=True, kw_only=True, tag="warning_failed_closed"):
    """It could not be done, and nothing was opened."""

    error: str

    @property
    def text(self) -> str:
        return f"warning_failed_closed({self.error})"


class ExternalToolStatus(ConfigStatus, frozen=True, kw_only=True, tag="external_tool_delta"):
    """How far a change of tools from outside is. Only a failure shows its detail."""

    phase: ExternalToolPhase
    detail: str | None = None

    @property
    def text(self) -> str:
        if self.phase == "failed" and self.detail is not None:
            return f"failed: {self.detail}"
        return self.phase


class LegacyStatus(ConfigStatus, frozen=True, kw_only=True, tag="legacy_status"):
    """A text of which nothing more is known."""

    status: str

    @property
    def text(self) -> str:
        return self.status


AnyStatus = BoundaryApplied | CatalogCounts | WarningFailedClosed | ExternalToolStatus | LegacyStatus


class CatalogDelta(Wire, frozen=True, kw_only=True):
    """Which tools of the catalogue that is searched came and went."""

    added_hidden_names: tuple[str, ...] = ()
    removed_hidden_names: tuple[str, ...] = ()
    pending_sources: tuple[str, ...] = ()


class ToolConfigPayload(Wire, frozen=True, kw_only=True):
    """A change of tools. Its text is always that of its typed status, whatever was read beside it."""

    operation: ToolConfigOperation
    target: str
    status: str = msgspec.field(default_factory=str)
    status_info: AnyStatus
    persisted: bool
    applied_at_turn: U32 | None = None
    domain: ToolConfigDomain | None = None
    deferred_catalog_delta: CatalogDelta | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        msgspec.structs.force_setattr(self, "status", self.status_info.text)


def tolerated(value: Any) -> Any:
    """A change as it is read: older writers have a text alone, which is kept as a text."""
    if not isinstance(value, dict):
        return value
    given = {name: part for name, part in value.items() if name != "status"}
    status, typed = value.get("status"), value.get("status_info")
    if status is not None and not isinstance(status, str):
        raise CodecError("the status of a change of tools must be a string")
    if typed is None and status is not None:
        given["status_info"] = {"kind": "legacy_status", "status": status}
    if given.get("status_info") is None:
        raise CodecError("a change of tools needs 'status_info'")
    return given


def payload_schema() -> dict[str, Any]:
    """The JSON Schema of a change: the text is always there, the typed status in all but old ones."""
    schema = msgspec.json.schema(ToolConfigPayload)
    definition = schema["$defs"]["ToolConfigPayload"]
    definition["required"] = sorted({*definition["required"], "status"} - {"status_info"})
    return schema


class ExternalToolDelta(Wire, frozen=True, kw_only=True):
    """A change of tools from outside, as whoever manages them tells it."""

    target: str
    operation: ToolConfigOperation
    phase: ExternalToolPhase
    persisted: bool
    applied_at_turn: U32 | None = None
    tool_count: U64 | None = None
    detail: str | None = None

    def as_payload(self) -> ToolConfigPayload:
        """The same as a change of tools; how many tools it is about is not part of that."""
        status = ExternalToolStatus(phase=self.phase, detail=self.detail)
        return ToolConfigPayload(
            operation=self.operation,
            target=self.target,
            status_info=status,
            persisted=self.persisted,
            applied_at_turn=self.applied_at_turn,
        )


def external_delta(
    target: str, operation: ToolConfigOperation, phase: ExternalToolPhase, **more: Any
) -> ExternalToolDelta:
    """A change from outside. One that is still under way is not kept yet."""
    kept = phase not in ("pending", "draining")
    return ExternalToolDelta(target=target, operation=operation, phase=phase, persisted=kept, **more)
