"""Policies of tests, as a log has them."""

from __future__ import annotations

import msgspec

from windlass.events.values.policy import Policy


def on_record(policy: Policy) -> Policy:
    """A policy as the runtime records it for an agent without a role, in a folder that nobody vouched for."""
    return msgspec.structs.replace(policy, role="custom", trusted=False)
