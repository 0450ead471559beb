"""Verbs that say something to a session: what each shows where somebody waits, nobody does, or a mistake."""

from __future__ import annotations

import pytest

from .screens import Case, look, wanted

SCREENS = [
    Case(
        verb="approve",
        kind="normal",
        words="approve march --wait 0",
        shown="""\
pay wants to run (request <permission of march>)
│ {
│   "invoice": "I-7",
│   "cents": 1200
│ }
an approval holds for exactly this call (digest DIGEST)
approved <permission of march>: pay may run
kept in the inbox; nobody drives this session now. It continues when agent
  'clerk' is run:
  windlass run --agent FILE.py:clerk --session march
""",
    ),
    Case(
        verb="approve",
        kind="empty",
        words="approve done",
        code=2,
        shown="""\
windlass: session 'done' is not waiting for a permission: 'windlass show done'
  says what it does
""",
    ),
    Case(
        verb="approve",
        kind="error",
        words="approve march p999",
        code=2,
        shown="""\
windlass: session 'march' has no open permission 'p999'; open: <permission of march> (pay)
""",
    ),
    Case(
        verb="deny",
        kind="normal",
        words="deny march --feedback 'ask Ada first' --wait 0",
        shown="""\
denied <permission of march>: pay does not run, the model is told so
kept in the inbox; nobody drives this session now. It continues when agent
  'clerk' is run:
  windlass run --agent FILE.py:clerk --session march
""",
    ),
    Case(
        verb="deny",
        kind="empty",
        words="deny done",
        code=2,
        shown="""\
windlass: session 'done' is not waiting for a permission: 'windlass show done'
  says what it does
""",
    ),
    Case(
        verb="deny",
        kind="error",
        words="deny",
        code=2,
        shown="""\
windlass: the following arguments are required: SESSION
usage: windlass deny …
'windlass deny --help' says more
""",
    ),
    Case(
        verb="answer",
        kind="normal",
        words="answer poll 2 --wait 0",
        shown="""\
a question (<question of poll>)
│ Which one?
│   1) red
│   2) blue
answered <question of poll>
kept in the inbox; nobody drives this session now. It continues when agent
  'poll' is run:
  windlass run --agent FILE.py:poll --session poll
""",
    ),
    Case(
        verb="answer",
        kind="empty",
        words="answer done yes",
        code=2,
        shown="""\
windlass: session 'done' is not waiting for a question: 'windlass show done'
  says what it does
""",
    ),
    Case(
        verb="answer",
        kind="error",
        words="answer poll 7",
        code=2,
        shown="""\
windlass: '7': the options are numbered 1 to 2
""",
    ),
    Case(
        verb="answer",
        kind="error",
        words="answer poll",
        code=2,
        shown="""\
windlass: no answer to <question of poll> was given: write it after the session, or use
  --decline
""",
    ),
    Case(
        verb="settle",
        kind="normal",
        words="settle wired <call of wired> did_not_happen --wait 0",
        shown="""\
wire [<call of wired>] was cut off while it ran, and may have had its effect
│ {
│   "account": "A-1"
│ }
settled <call of wired>: did not happen
kept in the inbox; nobody drives this session now. It continues when agent
  'banker' is run:
  windlass run --agent FILE.py:banker --session wired
""",
    ),
    Case(
        verb="settle",
        kind="normal",
        words="settle wired - happened --wait 0",
        shown="""\
wire [<call of wired>] was cut off while it ran, and may have had its effect
│ {
│   "account": "A-1"
│ }
settled <call of wired>: happened
kept in the inbox; nobody drives this session now. It continues when agent
  'banker' is run:
  windlass run --agent FILE.py:banker --session wired
""",
    ),
    Case(
        verb="settle",
        kind="empty",
        words="settle done <call of done> happened",
        code=2,
        shown="""\
windlass: no call '<call of done>' waits to be settled; there is: none (a person settles
  the calls of tools that say settle=True; of others the model is told)
""",
    ),
    Case(
        verb="settle",
        kind="error",
        words="settle wired <call of wired> perhaps",
        code=2,
        shown="""\
windlass: argument outcome: 'perhaps' is none of happened, did_not_happen,
  run_again
usage: windlass settle …
'windlass settle --help' says more
""",
    ),
    Case(
        verb="interrupt",
        kind="normal",
        words="interrupt asleep --reason 'not now' --wait 0",
        shown="""\
interrupt: it is stopped, and may continue later
kept in the inbox; nobody drives this session now. It continues when agent
  'tired' is run:
  windlass run --agent FILE.py:tired --session asleep
""",
    ),
    Case(
        verb="interrupt",
        kind="empty",
        words="interrupt done",
        shown="""\
session 'done' is idle: nothing to interrupt. Nothing was sent.
""",
    ),
    Case(
        verb="interrupt",
        kind="error",
        words="interrupt nobody",
        code=2,
        shown="""\
windlass: no session 'nobody' in 'windlass.db': 'windlass ps' lists them
""",
    ),
    Case(
        verb="cancel",
        kind="normal",
        words="cancel march --wait 0",
        shown="""\
cancel: the run is closed for good
kept in the inbox; nobody drives this session now. It continues when agent
  'clerk' is run:
  windlass run --agent FILE.py:clerk --session march
""",
    ),
    Case(
        verb="cancel",
        kind="empty",
        words="cancel done",
        shown="""\
session 'done' is idle: nothing to cancel. Nothing was sent.
""",
    ),
    Case(
        verb="cancel",
        kind="error",
        words="cancel nobody",
        code=2,
        shown="""\
windlass: no session 'nobody' in 'windlass.db': 'windlass ps' lists them
""",
    ),
    Case(
        verb="wake",
        kind="normal",
        words="wake held --wait 0",
        shown="""\
wake: the session continues now
kept in the inbox; nobody drives this session now. It continues when agent
  'slow' is run:
  windlass run --agent FILE.py:slow --session held
""",
    ),
    Case(
        verb="wake",
        kind="empty",
        words="wake done",
        shown="""\
session 'done' is idle: nothing to wake. Nothing was sent.
""",
    ),
    Case(
        verb="wake",
        kind="empty",
        words="wake march",
        shown="""\
session 'march' is asked: the session waits for an answer; 'windlass show
  march' says for what. Nothing was sent.
""",
    ),
    Case(
        verb="wake",
        kind="error",
        words="wake nobody",
        code=2,
        shown="""\
windlass: no session 'nobody' in 'windlass.db': 'windlass ps' lists them
""",
    ),
    Case(
        verb="grants",
        kind="empty",
        words="grants done",
        shown="""\
session 'done' has no standing approvals: whatever its policy asks about is
  asked
""",
    ),
    Case(
        verb="grants",
        kind="error",
        words="grants done --revoke g999",
        code=2,
        shown="""\
windlass: no standing approval 'g999' in session 'done': it has none
""",
    ),
    Case(
        verb="queue",
        kind="normal",
        words="queue held --drop <prompt 1 of held> --wait 0",
        shown="""\
the queue becomes: <prompt 2 of held>
kept in the inbox; nobody drives this session now. It continues when agent
  'slow' is run:
  windlass run --agent FILE.py:slow --session held
""",
    ),
    Case(
        verb="rewind",
        kind="normal",
        words="rewind done --to 13 --wait 0",
        shown="""\
rewind to 13: the model sees 3 of 4 items from here
kept in the inbox; nobody drives this session now. It continues when agent
  'free' is run:
  windlass run --agent FILE.py:free --session done
""",
    ),
    Case(
        verb="rewind",
        kind="empty",
        words="rewind - --to 1",
        code=2,
        place="empty",
        shown="""\
windlass: there is no session in 'windlass.db' yet: begin one with 'windlass
  run'
""",
    ),
    Case(
        verb="rewind",
        kind="error",
        words="rewind done --to 99",
        code=2,
        shown="""\
windlass: --to 99: session 'done' has the records 1 to 16
""",
    ),
]


@pytest.mark.parametrize("case", SCREENS, ids=[case.name for case in SCREENS])
def test_whole_screen(case, terminal, place):
    here = place(case.place)
    screen = wanted(case, here)
    assert look(terminal, case, here) == screen
