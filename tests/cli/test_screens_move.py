"""Verbs on whole sessions: what each shows where it works, has nothing to work on, or is called wrongly."""

from __future__ import annotations

import pytest

from .screens import Case, look, wanted

SCREENS = [
    Case(
        verb="fork",
        kind="normal",
        words="fork done --as again",
        shown="""\
again continues from record 16 of done
  windlass run --agent FILE.py:free --session again 'what to do now'
""",
    ),
    Case(
        verb="fork",
        kind="normal",
        words="fork done --at 10 --as again",
        shown="""\
again continues from record 9 of done
(record 10 was written together with others: the fork begins before them)
  windlass run --agent FILE.py:free --session again 'what to do now'
""",
    ),
    Case(
        verb="fork",
        kind="empty",
        words="fork -",
        code=2,
        place="empty",
        shown="""\
windlass: there is no session in 'windlass.db' yet: begin one with 'windlass
  run'
""",
    ),
    Case(
        verb="fork",
        kind="error",
        words="fork done --at 99",
        code=2,
        shown="""\
windlass: --at 99: session 'done' has the records 1 to 16
""",
    ),
    Case(
        verb="fork",
        kind="error",
        words="fork done --as march",
        code=2,
        shown="""\
windlass: session 'march' exists already: give the fork another id with --as
""",
    ),
    Case(
        verb="fork",
        kind="normal",
        words="fork march --deny <permission of march> --as march-no",
        shown="""\
march-no continues from record N of march, where <permission of march> (pay) is denied
  windlass run --agent FILE.py:clerk --session march-no
""",
    ),
    Case(
        verb="fork",
        kind="error",
        words="fork march --deny p999",
        code=2,
        shown="""\
windlass: session 'march' never asked 'p999': 'windlass logs' names what it
  asked
""",
    ),
    Case(
        verb="fork",
        kind="error",
        words="fork march --approve q12",
        code=2,
        shown="""\
windlass: q12 is a question: use --reopen q12, then 'windlass answer'
""",
    ),
    Case(
        verb="diff",
        kind="normal",
        words="diff done march",
        code=1,
        shown="""\
--- done
+++ march
@@ -4,6 +4,4 @@
   I will pay it.
   → pay(invoice="I-7", cents=1200)
-result of pay
-  paid I-7
-assistant
-  Done: I-7 is paid.
+error of pay
+  [this call has no result yet]
""",
    ),
    Case(
        verb="diff",
        kind="empty",
        words="diff done done",
        shown="""\
the same was said in both: 9 lines
""",
    ),
    Case(
        verb="diff",
        kind="error",
        words="diff done nosuch",
        code=2,
        shown="""\
windlass: no session 'nosuch' in 'windlass.db': 'windlass ps' lists them
""",
    ),
    Case(
        verb="export",
        kind="normal",
        words="export done done.jsonl",
        shown="""\
exported done: N bytes in done.jsonl
""",
    ),
    Case(
        verb="export",
        kind="empty",
        words="export - it.jsonl",
        code=2,
        place="empty",
        shown="""\
windlass: there is no session in 'windlass.db' yet: begin one with 'windlass
  run'
""",
    ),
    Case(
        verb="export",
        kind="error",
        words="export done gone/done.jsonl",
        code=2,
        shown="""\
windlass: cannot write 'gone/done.jsonl': No such file or directory
""",
    ),
    Case(
        verb="import",
        kind="normal",
        words="import done.jsonl --as copy",
        before=("export done done.jsonl",),
        shown="""\
imported copy: 16 records, verified
""",
    ),
    Case(
        verb="import",
        kind="empty",
        words="import /dev/null",
        code=2,
        shown="""\
windlass: '/dev/null' is no whole export of a session: the export is cut off.
  Nothing was imported.
""",
    ),
    Case(
        verb="import",
        kind="error",
        words="import fork.jsonl --store other.db",
        code=2,
        before=("fork done --as twin", "export twin fork.jsonl"),
        shown="""\
windlass: 'fork.jsonl' is an export of a fork without the history that it
  shares (tenant 'default' has no session 'done'): import that session first, or
  export this one with --whole
""",
    ),
    Case(
        verb="import",
        kind="error",
        words="import agents.py",
        code=2,
        shown="""\
windlass: 'agents.py' is no whole export of a session: not a line of an
  export: Input data was truncated. Nothing was imported.
""",
    ),
    Case(
        verb="import",
        kind="error",
        words="import gone.jsonl",
        code=2,
        shown="""\
windlass: cannot read 'gone.jsonl': No such file or directory
""",
    ),
    Case(
        verb="prune",
        kind="normal",
        words="prune --older-than 0s",
        shown="""\
would remove  done  0 s old
would remove  held  0 s old
a dry run: nothing was changed; --yes removes 2 sessions
""",
    ),
    Case(
        verb="prune",
        kind="normal",
        words="prune --older-than 0s --yes",
        before=("fork done --as again",),
        shown="""\
removed  again  0 s old
kept     done   its forks need it: again
removed  held   0 s old
removed 2 sessions
""",
    ),
    Case(
        verb="prune",
        kind="empty",
        words="prune --older-than 1d",
        place="empty",
        shown="""\
no session at rest is older than 1d: nothing to remove
""",
    ),
    Case(
        verb="prune",
        kind="error",
        words="prune --older-than soon",
        code=2,
        shown="""\
windlass: --older-than 'soon': write a number and one of s, m, h, d, w, such
  as 30d
""",
    ),
]


@pytest.mark.parametrize("case", SCREENS, ids=[case.name for case in SCREENS])
def test_whole_screen(case, terminal, place):
    here = place(case.place)
    screen = wanted(case, here)
    assert look(terminal, case, here) == screen
