"""Verbs that only look: what each shows where there is something, nothing, or a mistake."""

from __future__ import annotations

import pytest

from .screens import Case, look, wanted

SCREENS = [
    Case(
        verb="ps",
        kind="normal",
        words="ps",
        shown="""\
SESSION  STATE     AGENT   AGE    COST  WAITING FOR             TITLE
wired    asked     banker  0 s    $0    settle <call of wired> (wire)      -
poll     asked     poll    0 s    $0    question <question of poll> (ask_user)  the poll one
march    asked     clerk   0 s    $0    permission <permission of march> (pay)     the march one
done     idle      free    0 s    $0    -                       the done one
asleep   sleeping  tired   0 s    $0    a timer, in 23 h        -
held     idle      slow    0 s    $0    -                       -
""",
    ),
    Case(
        verb="ps",
        kind="empty",
        words="ps",
        place="empty",
        shown="""\
no session in windlass.db yet: begin one with 'windlass run' or 'windlass chat'
""",
    ),
    Case(
        verb="ps",
        kind="empty",
        words="ps --state running",
        shown="""\
no session in windlass.db fits: 'windlass ps' lists all of them
""",
    ),
    Case(
        verb="ps",
        kind="error",
        words="ps --limit 0",
        code=2,
        shown="""\
windlass: --limit 0: give a number of at least 1
""",
    ),
    Case(
        verb="ps",
        kind="error",
        words="ps",
        code=2,
        place="bare",
        shown="""\
windlass: there is no store at 'windlass.db': name one with --store or
  WINDLASS_STORE, or begin one with 'windlass run' or 'windlass demo'
""",
    ),
    Case(
        verb="logs",
        kind="normal",
        words="logs done",
        shown="""\
       2026-01-01 UTC
    1  12:00:00  session started     “the done one”; agent free, model scripted,
                                     tools: pay
    2  12:00:00  prompt              Pay I-7.
    3  12:00:00  run started         <run of done> (prompt)
    6  12:00:00  model replied       I will pay it.
                                     → pay(invoice="I-7", cents=1200)
                                     (10 in, 10 out, 0 s)
   10  12:00:00  tool finished       pay [<call of done>]: paid I-7
   14  12:00:00  model replied       Done: I-7 is paid.
                                     (10 in, 10 out, 0 s)
   16  12:00:00  run completed       completed; 2 turns, 20 in, 20 out, $0
""",
    ),
    Case(
        verb="logs",
        kind="normal",
        words="logs wired --all",
        shown="""\
       2026-01-01 UTC
    1  12:00:00  session started     agent banker, model scripted, tools: wire
    2  12:00:00  prompt              Send it.
    3  12:00:00  run started         <run of wired> (prompt)
    4  12:00:00  turn                1
    5  12:00:00  model requested     scripted, attempt 1
    6  12:00:00  model replied       → wire(account="A-1")
                                     (10 in, 10 out, 0 s)
    7  12:00:00  tool requested      wire [<call of wired>]
    8  12:00:00  tool allowed        wire [<call of wired>], by the default of the policy
                                     standard
    9  12:00:00  tool started        wire [<call of wired>], attempt 1
   10  12:00:00  session resumed     epoch 2, by process 7
   11  12:00:00  outcome unknown     wire [<call of wired>]
   12  12:00:00  run asked           awaiting people; 1 turn, 10 in, 10 out, $0
                                     waits for <call of wired>
""",
    ),
    Case(
        verb="logs",
        kind="empty",
        words="logs done --after 99",
        shown="""\
session done has no record after 99
""",
    ),
    Case(
        verb="logs",
        kind="error",
        words="logs nobody",
        code=2,
        shown="""\
windlass: no session 'nobody' in 'windlass.db': 'windlass ps' lists them
""",
    ),
    Case(
        verb="show",
        kind="normal",
        words="show march",
        shown="""\
session  march  “the march one”
state    asked: waits for permission <permission of march> (pay)
agent    clerk   model scripted   mode interactive
tools    pay
log      10 records, 1 turn
used     10 in, 10 out (tokens), $0
begun    2026-01-01 12:00:00 UTC
changed  2026-01-01 12:00:00 UTC

pay wants to run (request <permission of march>)
│ {
│   "invoice": "I-7",
│   "cents": 1200
│ }
an approval holds for exactly this call (digest DIGEST)
  windlass approve march <permission of march>
  windlass deny march <permission of march> --feedback '...'
""",
    ),
    Case(
        verb="show",
        kind="normal",
        words="show wired",
        shown="""\
session  wired
state    asked: waits for settle <call of wired> (wire)
agent    banker   model scripted   mode interactive
tools    wire
log      12 records, 1 turn
used     10 in, 10 out (tokens), $0
begun    2026-01-01 12:00:00 UTC
changed  2026-01-01 12:00:00 UTC

wire [<call of wired>] was cut off while it ran, and may have had its effect
│ {
│   "account": "A-1"
│ }
say what happened:
  windlass settle wired <call of wired> happened
  windlass settle wired <call of wired> did_not_happen
  windlass settle wired <call of wired> run_again
""",
    ),
    Case(
        verb="show",
        kind="normal",
        words="show held",
        shown="""\
session  held
state    idle: its last run was stopped and may continue
agent    slow   model scripted   mode interactive
tools    none
log      14 records, 1 turn
used     about 2 in, 16,384 out (tokens), $0
begun    2026-01-01 12:00:00 UTC
changed  2026-01-01 12:00:00 UTC
queue    2 prompts waiting

  windlass wake held
  windlass run --agent FILE.py:slow --session held
""",
    ),
    Case(
        verb="show",
        kind="normal",
        words="show asleep",
        shown="""\
session  asleep
state    sleeping
agent    tired   model scripted   mode interactive
tools    none
log      9 records, 1 turn
used     0 in, 0 out (tokens), $0
begun    2026-01-01 12:00:00 UTC
changed  2026-01-01 12:00:00 UTC
wakes    2026-01-01 12:00:00 UTC

  windlass wake asleep
  windlass run --agent FILE.py:tired --session asleep
""",
    ),
    Case(
        verb="show",
        kind="empty",
        words="show -",
        code=2,
        place="empty",
        shown="""\
windlass: there is no session in 'windlass.db' yet: begin one with 'windlass
  run'
""",
    ),
    Case(
        verb="show",
        kind="error",
        words="show nobody",
        code=2,
        shown="""\
windlass: no session 'nobody' in 'windlass.db': 'windlass ps' lists them
""",
    ),
    Case(
        verb="files",
        kind="empty",
        words="files done",
        shown="""\
no tool of session 'done' reported a changed file
""",
    ),
    Case(
        verb="files",
        kind="error",
        words="files nobody",
        code=2,
        shown="""\
windlass: no session 'nobody' in 'windlass.db': 'windlass ps' lists them
""",
    ),
    Case(
        verb="inspect",
        kind="normal",
        words="inspect done",
        shown="""\
session done after record 16, for scripted

instructions   0
tools         65
knowledge      0
history       29
task state     0
all           94 of 128,000 tokens (less than 1%)

tools
│ pay: Pay an invoice.

[2] user
│ Pay I-7.

[6] assistant
│ I will pay it.
│ → pay(invoice="I-7", cents=1200)

[10:<call of done>] result of pay
│ paid I-7

[14] assistant
│ Done: I-7 is paid.
""",
    ),
    Case(
        verb="inspect",
        kind="empty",
        words="inspect done --at 1",
        shown="""\
session done after record 1, for scripted

instructions   0
tools         65
knowledge      0
history        0
task state     0
all           65 of 128,000 tokens (less than 1%)

tools
│ pay: Pay an invoice.

the history is empty: the model has been told nothing yet
""",
    ),
    Case(
        verb="inspect",
        kind="error",
        words="inspect done --at 99",
        code=2,
        shown="""\
windlass: session 'done' ends at record 16: --at 99 is past its end
""",
    ),
    Case(
        verb="cost",
        kind="normal",
        words="cost",
        shown="""\
SESSION  AGENT   IN     OUT  COST
wired    banker  10      10    $0
poll     poll    10      10    $0
march    clerk   10      10    $0
done     free    20      20    $0
asleep   tired    0       0    $0
held     slow     2  16,384    $0
sum              52  16,434    $0
""",
    ),
    Case(
        verb="cost",
        kind="normal",
        words="cost done",
        shown="""\
MODEL     REQUESTS  IN  CACHED  OUT  COST
scripted         2  20       0   20    $0
""",
    ),
    Case(
        verb="cost",
        kind="empty",
        words="cost",
        place="empty",
        shown="""\
no session in windlass.db yet: nothing was spent
""",
    ),
    Case(
        verb="ps",
        kind="normal",
        words="ps --waiting --agent clerk",
        shown="""\
SESSION  STATE  AGENT  AGE    COST  WAITING FOR          TITLE
march    asked  clerk  0 s    $0    permission <permission of march> (pay)  the march one
""",
    ),
    Case(
        verb="cost",
        kind="error",
        words="cost nobody",
        code=2,
        shown="""\
windlass: no session 'nobody' in 'windlass.db': 'windlass ps' lists them
""",
    ),
    Case(
        verb="verify",
        kind="normal",
        words="verify",
        shown="""\
ok       wired   12 records  HASH
ok       poll    11 records  HASH
ok       march   10 records  HASH
ok       done    16 records  HASH
ok       asleep   9 records  HASH
ok       held    14 records  HASH
6 sessions, every record as it was written
""",
    ),
    Case(
        verb="anchor",
        kind="empty",
        words="anchor",
        place="empty",
        shown="""\
no session in windlass.db yet: there is nothing to note
""",
    ),
    Case(
        verb="anchor",
        kind="error",
        words="anchor nobody",
        code=2,
        shown="""\
windlass: no session 'nobody' in 'windlass.db': 'windlass ps' lists them
""",
    ),
    Case(
        verb="verify",
        kind="empty",
        words="verify",
        place="empty",
        shown="""\
no session in windlass.db yet: there is nothing to verify
""",
    ),
    Case(
        verb="doctor",
        kind="normal",
        words="doctor",
        environ={"ANTHROPIC_API_KEY": "sk-secret"},
        shown="""\
ok      python      3.11.0 at PYTHON
ok      keys        anthropic (ANTHROPIC_API_KEY)
remark  embedded    the embedded model is not on this machine: run 'windlass
                    models pull embedded' (93 MB, once)
ok      model       anthropic/claude-sonnet-5-5 would be used: ANTHROPIC_API_KEY
                    is set
ok      store       windlass.db: 6 sessions, durability full
remark  sessions    3 wait for a person: 'windlass ps --waiting'
nothing is wrong
""",
    ),
    Case(
        verb="doctor",
        kind="empty",
        words="doctor",
        place="bare",
        environ={"ANTHROPIC_API_KEY": "sk-secret"},
        shown="""\
ok      python      3.11.0 at PYTHON
ok      keys        anthropic (ANTHROPIC_API_KEY)
remark  embedded    the embedded model is not on this machine: run 'windlass
                    models pull embedded' (93 MB, once)
ok      model       anthropic/claude-sonnet-5-5 would be used: ANTHROPIC_API_KEY
                    is set
remark  store       there is none at 'windlass.db' yet: 'windlass run' begins
                    one
nothing is wrong
""",
    ),
    Case(
        verb="doctor",
        kind="error",
        words="doctor",
        code=1,
        shown="""\
ok      python      3.11.0 at PYTHON
remark  keys        none in the environment: only local models can be used
remark  embedded    the embedded model is not on this machine: run 'windlass
                    models pull embedded' (93 MB, once)
wrong   model       embedded/smollm2-135m would be used: no key is in the
                    environment and no local Ollama answers; it is not
                    installed: run 'windlass models pull embedded', or set a key
                    such as ANTHROPIC_API_KEY
ok      store       windlass.db: 6 sessions, durability full
remark  sessions    3 wait for a person: 'windlass ps --waiting'
1 problem to mend
""",
    ),
    Case(
        verb="queue",
        kind="normal",
        words="queue held",
        shown="""\
<prompt 1 of held>  Then sweep the floor.
<prompt 2 of held>  Then close the door.
the queue is held: 'windlass wake held' lets the session go on with it
""",
    ),
    Case(
        verb="queue",
        kind="empty",
        words="queue done",
        shown="""\
no prompt waits in session 'done'
""",
    ),
    Case(
        verb="queue",
        kind="error",
        words="queue held --drop i999",
        code=2,
        shown="""\
windlass: no prompt 'i999' waits in session 'held': waiting are <prompt 1 of held>, <prompt 2 of held>
""",
    ),
]


@pytest.mark.parametrize("case", SCREENS, ids=[case.name for case in SCREENS])
def test_whole_screen(case, terminal, place):
    here = place(case.place)
    screen = wanted(case, here)
    assert look(terminal, case, here) == screen
