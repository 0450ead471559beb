"""Verbs with which one begins: what each shows where it works, has nothing to do, or is called wrongly."""

from __future__ import annotations

import pytest

from .screens import Case, look, wanted

SCREENS = [
    Case(
        verb="run",
        kind="normal",
        words="run --agent agents.py:free 'Pay I-7.' --session s",
        place="bare",
        shown="""\
session s in windlass.db · model scripted · tools pay
requests to you are marked abc: no model has seen these letters
  I will pay it.
→ pay(invoice="I-7", cents=1200)
← paid I-7
  Done: I-7 is paid.
completed · 2 turns · 20 in, 20 out · $0 · 0 s
""",
    ),
    Case(
        verb="run",
        kind="error",
        words="run --agent agents.py:clerk --session done",
        code=2,
        shown="""\
windlass: session 'done' belongs to agent 'free', not to 'clerk'
""",
    ),
    Case(
        verb="run",
        kind="empty",
        words="run",
        code=2,
        place="bare",
        shown="""\
windlass: nothing to do: write a prompt, pipe one in, or name a --session to
  resume
""",
    ),
    Case(
        verb="run",
        kind="error",
        words="run --agent gone.py:agent 'Hi.'",
        code=2,
        place="bare",
        shown="""\
windlass: there is no file 'gone.py': write FILE.py:NAME
""",
    ),
    Case(
        verb="run",
        kind="error",
        words="run --instructions @gone.txt 'Hi.'",
        code=2,
        place="bare",
        shown="""\
windlass: cannot read 'gone.txt': No such file or directory
""",
    ),
    Case(
        verb="run",
        kind="error",
        words="run --model xyzzy 'Hi.'",
        code=2,
        place="bare",
        shown="""\
windlass: no model 'xyzzy': run 'windlass models' to list them, or write
  provider/model
""",
    ),
    Case(
        verb="run",
        kind="error",
        words="run --policy lax 'Hi.'",
        code=2,
        place="bare",
        shown="""\
windlass: no policy 'lax': write standard, allow-all, read-only,
  workspace-write, sandboxed, FILE.toml, FILE.yaml or FILE.py:NAME
""",
    ),
    Case(
        verb="chat",
        kind="empty",
        words="chat",
        code=2,
        place="bare",
        shown="""\
windlass: the embedded model is not on this machine: run 'windlass models pull
  embedded' (93 MB, once), or set a key such as ANTHROPIC_API_KEY
""",
    ),
    Case(
        verb="chat",
        kind="error",
        words="chat --agent gone.py:agent",
        code=2,
        place="bare",
        shown="""\
windlass: there is no file 'gone.py': write FILE.py:NAME
""",
    ),
    Case(
        verb="demo",
        kind="empty",
        words="demo",
        code=2,
        place="bare",
        shown="""\
windlass: the embedded model is not on this machine: run 'windlass models pull
  embedded' (93 MB, once)
""",
    ),
    Case(
        verb="demo",
        kind="error",
        words="demo --city Atlantis",
        code=2,
        place="bare",
        shown="""\
windlass: the demo's clock does not know 'Atlantis': choose one of Athens,
  Berlin, Boston, Cairo, Delhi, Dublin, Havana, Lima, Lisbon, Madrid, Nairobi,
  Oslo, Paris, Prague, Rome, Seoul, Sydney, Tokyo, Vienna, Zurich
""",
    ),
    Case(
        verb="init",
        kind="normal",
        words="init mine",
        place="bare",
        shown="""\
wrote mine/agent.py
wrote mine/test_agent.py
wrote mine/README.md
next
  windlass chat --agent mine/agent.py:agent
  pip install pytest && pytest mine
""",
    ),
    Case(
        verb="init",
        kind="empty",
        words="init",
        place="bare",
        shown="""\
wrote agent.py
wrote test_agent.py
wrote README.md
next
  windlass chat --agent agent.py:agent
  pip install pytest && pytest .
""",
    ),
    Case(
        verb="init",
        kind="error",
        words="init mine",
        code=2,
        place="bare",
        before=("init mine",),
        shown="""\
windlass: 'mine/agent.py' exists already: name another folder
""",
    ),
    Case(
        verb="completion",
        kind="empty",
        words="completion",
        code=2,
        place="bare",
        shown="""\
windlass: the following arguments are required: shell
usage: windlass completion …
'windlass completion --help' says more
""",
    ),
    Case(
        verb="completion",
        kind="error",
        words="completion tcsh",
        code=2,
        place="bare",
        shown="""\
windlass: argument shell: 'tcsh' is none of bash, zsh, fish
usage: windlass completion …
'windlass completion --help' says more
""",
    ),
    Case(
        verb="models",
        kind="error",
        words="models --model xyzzy",
        code=2,
        place="bare",
        shown="""\
windlass: no model 'xyzzy': run 'windlass models' to list them, or write
  provider/model
""",
    ),
    Case(
        verb="models",
        kind="error",
        words="models pull everything",
        code=2,
        place="bare",
        shown="""\
windlass: argument what: 'everything' is none of embedded
usage: windlass models …
'windlass models pull --help' says more
""",
    ),
    Case(
        verb="sim",
        kind="empty",
        words="sim",
        code=2,
        place="bare",
        shown="""\
windlass: the following arguments are required: SEED
usage: windlass sim …
'windlass sim --help' says more
""",
    ),
    Case(
        verb="sim",
        kind="error",
        words="sim 1 --steps 20",
        code=2,
        place="bare",
        shown="""\
windlass: --steps 20: a world needs at least 200 to get into trouble
""",
    ),
]


@pytest.mark.parametrize("case", SCREENS, ids=[case.name for case in SCREENS])
def test_whole_screen(case, terminal, place):
    here = place(case.place)
    screen = wanted(case, here)
    assert look(terminal, case, here) == screen
