"""Makes changes that were planned: checked against what was agreed to, what was there kept first, all of them or
none."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

from windlass.tools.context import ToolContext
from windlass.tools.files.root import Root
from windlass.tools.files.seen_files import SeenFiles

from .change_plan import Basis, Change, current, digest, read_basis, rests_on
from .commit import Stale, commit, lock_of
from .places import Place

Plan = Callable[[frozenset[str]], list[Change]]
"""Works out the changes, without those of some paths."""


class ChangeMaker:
    """Changes files for one call."""

    def __init__(self, ctx: ToolContext, root: Root, seen: SeenFiles) -> None:
        self._ctx = ctx
        self._root = root
        self._seen = seen

    def make(self, plan: Plan) -> list[Basis]:
        """Plans and makes the changes; says what they were, with those that an earlier attempt of this call has made.
        Raises `Refusal`, and nothing is changed then, as far as the disk allows."""
        with lock_of(self._root):
            basis = read_basis(self._ctx.basis) if self._ctx.basis else {}
            done = self._done(basis)
            changes = plan(frozenset(done))
            if basis:
                self._check(changes, basis)
            self._keep(changes)
            for one in done.values():
                self._report(one)
            commit(changes, self._settle)
        return [*done.values(), *map(rests_on, changes)]

    def _done(self, basis: dict[str, Basis]) -> dict[str, Basis]:
        """What an earlier attempt of the same call has changed already. Raises `Stale` for what is neither as it was
        nor as it should become."""
        done: dict[str, Basis] = {}
        for path, one in basis.items():
            now = digest(current(Place(self._root, path))[0])
            if now == one.after and now != one.before:
                done[path] = one
            elif now != one.before:
                raise Stale(path)
        if done and self._ctx.attempt <= 1:
            raise Stale(next(iter(done)))
        return done

    def _check(self, changes: list[Change], basis: dict[str, Basis]) -> None:
        for change in changes:
            if basis.get(change.place.shown) != rests_on(change):
                raise Stale(change.place.path)

    def _keep(self, changes: list[Change]) -> None:
        """What the files hold and will hold goes on record before the first of them changes."""
        files = [(change.place.shown_whole, change.before, change.after) for change in changes]
        if files and self._ctx.keeps:
            self._ctx.wait(self._ctx.keep(files))

    def _settle(self, change: Change, folder: int) -> None:
        self._report(rests_on(change))
        about = change.place.about(folder)
        if about is not None:
            self._seen.add(self._ctx.session, about)

    def _report(self, one: Basis) -> None:
        operation: Literal["create", "update", "delete"]
        operation = "create" if one.before is None else "delete" if one.after is None else "update"
        self._ctx.changed(
            os.path.join(self._root.path, one.path),
            operation,
            lines_added=one.added,
            lines_removed=one.removed,
            before=one.before,
            after=one.after,
        )
