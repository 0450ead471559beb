"""What people say to sessions: one command at a time, thought up by chance and by what a session waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.events.base import Command
from windlass.events.changes import (
    ChangeGrants,
    ChangeMetadata,
    ChangeMode,
    ChangeModel,
    ChangePins,
    ChangeReceived,
    ChangeSettings,
    ChangeTitle,
)
from windlass.events.commands import PromptBody, PromptReceived, QueueEdited
from windlass.events.context import CompactReceived, UndoReceived
from windlass.events.questions import Answer, AnswerBody, AnswerReceived
from windlass.events.runs import CancelReceived, InterruptReceived, WakeReceived
from windlass.events.signals import SignalBody, SignalReceived
from windlass.events.tools.calls import CallReceived, ResultBody, ResultReceived, ToolSettled, UserCallBody
from windlass.events.tools.jobs import KillReceived
from windlass.events.tools.labels import LabelsDeclassified
from windlass.events.tools.permissions import Covered, FeedbackBody, PermissionApproved, PermissionDenied
from windlass.events.trees.flows import FlowBody, FlowReceived
from windlass.events.trees.growth import NodesReceived
from windlass.events.trees.machines import MachineBody, MachineReceived
from windlass.events.values.blocks import Text
from windlass.events.values.ids import prompt_id
from windlass.events.values.models import ModelRef
from windlass.events.values.setup import Limits, RunOptions
from windlass.kernel.parts.asks import Ask
from windlass.kernel.parts.trees.grants import END
from windlass.kernel.phases import Asked
from windlass.runtime.operate.open_requests import to_hear
from windlass.runtime.trees.tree_rows import root_of
from windlass.store.base import Key

from .flows.graphs import INPUT, added
from .machines.definitions import STATES

if TYPE_CHECKING:
    from .world import World

PROMPT_WORDS = (1, 10, 120)
LABELS = ("untrusted:mail", "private:prompt", "private")


def answer_body() -> AnswerBody:
    return AnswerBody(answers=(Answer(index=0, selected=("a",)),))


class Commands:
    """Makes the commands of a world, each with an id of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._count = 0

    def fresh_id(self) -> str:
        self._count += 1
        return f"k{self._count}"

    def any(self, key: Key) -> Command:
        """Something that somebody may want of a session now."""
        world, chance = self.world, self.world.chance
        answer = self.answer(key) if chance.hit(0.5) else None
        if answer is not None:
            return answer
        standing = world.watch.logs[key].state.gate.grants
        if world.kind == "talks" and chance.hit(0.5) and (hearing := self._hears(key)) is not None:
            return hearing
        if standing and chance.hit(0.5):
            return ChangeReceived(
                command_id=self.fresh_id(), change=ChangeGrants(revoke=(chance.one(sorted(standing)),))
            )
        if world.kind == "flows" and chance.hit(0.5):
            return self._of_a_flow(key)
        if world.kind == "machines" and chance.hit(0.5):
            asleep = self.world.watch.logs[key].state.machine.status == "sleeping"
            return WakeReceived(command_id=self.fresh_id()) if asleep and chance.hit(0.2) else self.moves()
        if chance.hit(world.rates.stops):
            kind = InterruptReceived if chance.hit(0.5) else CancelReceived
            return kind(command_id=self.fresh_id(), reason="enough", jobs=chance.hit(0.3))
        if chance.hit(0.55 - world.rates.tidies / 2):
            return self.prompt()
        return self._tidies(key) if chance.hit(world.rates.tidies) else self._rarer(key)

    def _hears(self, key: Key) -> Command | None:
        """Has a session hear one of another tree, if there is one."""
        root = root_of(key.session)
        others = sorted({root_of(each.session) for each in self.world.started()} - {root})
        if not others:
            return None
        grant = to_hear(self.world.chance.one(others), "somebody")
        return ChangeReceived(command_id=self.fresh_id(), change=ChangeGrants(add=(grant,)))

    def _of_a_flow(self, key: Key) -> Command:
        """What somebody may want of a workflow: that it goes on, and that it has more nodes."""
        chance, name = self.world.chance, self.fresh_id()
        if chance.hit(0.6):
            return FlowReceived(command_id=name, body=FlowBody(input=INPUT))
        there = list(self.world.watch.logs[key].state.flow.nodes)
        node = added(chance, name, there).node
        return NodesReceived(command_id=name, nodes=(node,), before=(chance.one(there),) if chance.hit(0.4) else ())

    def moves(self) -> MachineReceived:
        """Has a machine begin, or go to some state."""
        chance = self.world.chance
        state = chance.one(STATES) if chance.hit(0.1) else ""
        body = MachineBody(input={"task": "a change"}) if chance.hit(0.7) else None
        return MachineReceived(command_id=self.fresh_id(), state=state, body=body)

    def grant(self, child: str) -> CallReceived:
        """Gives a child more turns; sometimes more than there are."""
        args = {"child": child, "turns": self.world.chance.one((1, 2, 5, 50))}
        return CallReceived(command_id=self.fresh_id(), tool="grant_child", body=UserCallBody(args=args))

    def first(self) -> Command:
        """What is said to a session that was just found or made."""
        if self.world.kind == "flows":
            return FlowReceived(command_id=self.fresh_id(), body=FlowBody(input=INPUT))
        return self.moves() if self.world.kind == "machines" else self.prompt()

    def prompt(self) -> PromptReceived:
        chance = self.world.chance
        options = self._options() if chance.hit(self.world.rates.options) else None
        text = "word " * chance.one(PROMPT_WORDS)
        return PromptReceived(
            command_id=self.fresh_id(),
            behavior=chance.one((None, None, "steer", "follow_up")),
            tokens=len(text) // 4 + 1,
            bytes=len(text),
            options=options,
            labels=(chance.one(LABELS),) if chance.hit(self.world.rates.labels * 0.3) else (),
            body=PromptBody(content=(Text(text=text),)),
        )

    def _options(self) -> RunOptions:
        """What one run has otherwise than the others."""
        chance = self.world.chance
        return RunOptions(
            model=ModelRef(name=f"sim/{chance.one(('model', 'other'))}") if chance.hit(0.2) else None,
            limits=Limits(turns=2, tokens=chance.one((None, 5_000))) if chance.hit(0.4) else None,
            tools=chance.one((("look", "p*"), ("*",), ("put",))) if chance.hit(0.4) else None,
            output_required=chance.one((None, None, True, False)),
        )

    def _tidies(self, key: Key) -> Command:
        """Puts a session's history, tools and numbers in order."""
        chance, state = self.world.chance, self.world.watch.logs[key].state
        name = self.fresh_id()
        seqs = [ref.seq for ref in state.history.items]
        if state.compaction.count and chance.hit(0.4):
            return UndoReceived(command_id=name)
        match chance.below(5):
            case 0:
                return UndoReceived(command_id=name)
            case 1 | 2 if seqs:
                unpin = tuple(state.history.pinned)[:1] if chance.hit(0.3) else ()
                pin = tuple(sorted({chance.one(seqs) for _ in range(1 + chance.below(2))} - set(unpin)))
                return ChangeReceived(command_id=name, change=ChangePins(pin=pin, unpin=unpin))
            case 3:
                model = ModelRef(name=f"sim/{chance.one(('model', 'other'))}")
                return ChangeReceived(command_id=name, change=ChangeModel(model=model))
            case _:
                settings = chance.one(self.world.agents).settings
                return ChangeReceived(command_id=name, change=ChangeSettings(settings=settings))

    def _rarer(self, key: Key) -> Command:
        chance, state = self.world.chance, self.world.watch.logs[key].state
        name = self.fresh_id()
        if state.jobs.open and chance.hit(0.3):
            return KillReceived(command_id=name, job_id=chance.one(sorted(state.jobs.open)))
        if state.labels.held and chance.hit(self.world.rates.labels * 0.5):
            label = chance.one((*state.labels.held, "private"))
            return LabelsDeclassified(command_id=name, actor="somebody", labels=(label,), reason="harmless")
        match chance.below(7):
            case 0 | 1:
                return WakeReceived(command_id=name)
            case 2:
                urgency: Any = chance.one(("critical", "high", "normal", "low"))
                return SignalReceived(
                    command_id=name, kind="ping", urgency=urgency, tokens=4, body=SignalBody(text="ping")
                )
            case 3:
                order = [prompt_id(seq) for seq in state.queue.waiting if not chance.hit(0.3)]
                chance.shuffle(order)
                return QueueEdited(command_id=name, order=tuple(order))
            case 4:
                tool = chance.one(
                    ("look", "pay", "put", "ui", "todo", "extra")[: 6 if "extra" in state.toolset.tools else 5]
                )
                args: Any = {"todos": []} if tool == "todo" else {"n": 1}
                return CallReceived(command_id=name, tool=tool, body=UserCallBody(args=args, prepared=None))
            case 5:
                return CompactReceived(command_id=name)
            case _:
                change: Any = chance.one(
                    (
                        ChangeTitle(title="a title"),
                        ChangeMetadata(metadata={"k": "v"}),
                        ChangeMode(mode=chance.one(("interactive", "plan", "autopilot"))),
                    )
                )
                return ChangeReceived(command_id=name, change=change)

    def answer(self, key: Key) -> Command | None:
        """Answers something that a session waits for; None if it waits for nothing."""
        chance, state = self.world.chance, self.world.watch.logs[key].state
        name = self.fresh_id()
        if state.asks.open and chance.hit(0.8):
            ask = chance.one(list(state.asks.open.values()))
            if ask.ask_id == state.grants.question:
                ends = AnswerBody(answers=(Answer(index=0, selected=(END,)),))
                return AnswerReceived(command_id=name, question_id=ask.ask_id, tokens=4, body=ends)
            if ask.kind == "question":
                call = state.calls.by_id.get(ask.call_id)
                if call is not None and (call.node or call.state):
                    return AnswerReceived(command_id=name, question_id=ask.ask_id, tokens=4, body=self._chosen(key))
                action = chance.one(("approve", "reject")) if ask.question_kind == "plan" else None
                return AnswerReceived(
                    command_id=name, question_id=ask.ask_id, action=action, tokens=4, body=answer_body()
                )
            alike = [one for one in state.asks.open.values() if ask.group and one.group == ask.group and one != ask]
            if chance.hit(0.7):
                return self._approved(name, ask, alike)
            names = tuple(one.ask_id for one in alike)
            return PermissionDenied(
                command_id=name, request_id=ask.ask_id, also=names, body=FeedbackBody(feedback="no")
            )
        waiting = [call for call in state.calls.by_id.values() if call.status in ("delegated", "suspended", "unknown")]
        if not waiting:
            return None
        call = chance.one(waiting)
        body = ResultBody(content=(Text(text="done"),))
        if call.status == "unknown":
            outcome: Any = chance.one(("happened", "did_not_happen", "run_again"))
            return ToolSettled(command_id=name, call_id=call.call_id, outcome=outcome, tokens=2, body=body)
        return ResultReceived(command_id=name, call_id=call.call_id, tokens=2, body=body)

    def _approved(self, name: str, ask: Ask, alike: list[Ask]) -> PermissionApproved:
        """A yes to one call and those that are like it, or, now and then, one that stands for later ones too."""
        turn = self._count % 6
        if turn == 1 and ask.session_offered:
            return PermissionApproved(command_id=name, request_id=ask.ask_id, digest=ask.digest, scope="session")
        if turn == 3 and ask.by_pattern and ask.session_offered:
            return PermissionApproved(
                command_id=name, request_id=ask.ask_id, digest=ask.digest, scope="pattern", pattern="*"
            )
        also = tuple(Covered(request_id=one.ask_id, digest=one.digest) for one in alike)
        return PermissionApproved(command_id=name, request_id=ask.ask_id, digest=ask.digest, also=also)

    def _chosen(self, key: Key) -> AnswerBody:
        """What a person answers to a gate or a park; sometimes something that is no choice."""
        here, machine = self.world.chance, self.world.watch.logs[key].state.machine
        choices = machine.states[machine.current].next if machine.current else ("yes", "yes", "no")
        return AnswerBody(answers=(Answer(index=0, selected=(here.one((*choices, "perhaps")),)),))

    def settle(self, key: Key) -> Command | None:
        """What a person does who wants a session to come to an end."""
        state = self.world.watch.logs[key].state
        waiting = self.answer(key)
        if waiting is not None:
            return waiting
        if not state.active and (state.queue.waiting or isinstance(state.phase, Asked)) and not state.children.open:
            return WakeReceived(command_id=self.fresh_id())
        return None
