"""`windlass policy`: check a policy file, explain what it says of a call, and try it on recorded sessions."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from windlass.cli import options

if TYPE_CHECKING:
    from windlass.events.values.policy import Policy
    from windlass.runtime.operate.policy_trial import TriedCall

EXAMPLES = """examples:
  windlass policy check rules.toml                 is it one? what does it say?
  windlass policy explain rules.toml write '{"path": "a.txt", "content": ""}'     what becomes of this call, and why
  windlass policy explain rules.toml clerk.py:pay '{"cents": 5}'                  of a tool of your own
  windlass policy explain rules.toml write '{"path": "a.txt", "content": ""}' --role explore     ... in such a child
  windlass policy test rules.toml                  which calls of recorded sessions would be refused or asked about?
  windlass policy test rules.toml march april --json
"""
ARGS_CHARS_MAX = 80
ROLES = ("explore", "plan", "implement", "verify", "orchestrate", "custom")
OBJECT = """such as '{"path": "a.txt"}'"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the verb."""
    parser.epilog = EXAMPLES
    parser.add_argument("what", metavar="WHAT", choices=("check", "explain", "test"), help="check, explain or test")
    parser.add_argument("policy", metavar="POLICY", help="a policy file (.toml, .yaml), a preset or FILE.py:NAME")
    parser.add_argument("more", metavar="MORE", nargs="*", help="of explain: TOOL and ARGS as JSON; of test: sessions")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--role", metavar="ROLE", choices=ROLES, help="of explain: in a child session of this role")
    parser.add_argument("--trusted", action="store_true", help="of explain: this folder is trusted")
    options.add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Does it."""
    import asyncio

    from windlass.cli.agents import policy_of
    from windlass.events.errors import UsageError

    policy = policy_of(args.policy)
    if args.what != "explain" and (args.role or args.trusted):
        raise UsageError("--role and --trusted are of 'policy explain': recorded sessions say these themselves")
    if args.what == "check":
        return check(args, policy)
    if args.what == "explain":
        return explain(args, policy)
    return asyncio.run(test(args, policy))


def check(args: argparse.Namespace, policy: Policy) -> int:
    """Says what a policy says. One that is none was refused before, with what is wrong."""
    from windlass.cli.screen.number_words import plural
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.runtime.api.policy import explain as in_words
    from windlass.runtime.bind.policy_checks import check_policy

    if args.more:
        raise UsageError(f"'policy check' takes one policy, not {args.more[0]!r} as well")
    check_policy(policy)
    words = in_words(policy).splitlines()
    if args.json:
        tell_json({"policy": args.policy, "rules": len(policy.rules), "default": policy.default, "says": words})
        return 0
    put(f"{spelt(args.policy)}: {plural(len(policy.rules), 'rule')}, sound")
    for line in words:
        put(f"  {spelt(line)}")
    return 0


def explain(args: argparse.Namespace, policy: Policy) -> int:
    """Says what becomes of one call, and which rule says so."""
    import os

    from windlass.cli.agents import tool_of
    from windlass.cli.terminal.text import put, tell_json
    from windlass.cli.terminal.visible_text import spelt
    from windlass.events.errors import UsageError
    from windlass.runtime.api.policy import explain as explained

    if len(args.more) not in (1, 2):
        raise UsageError("'policy explain' takes a policy, a tool and its arguments as JSON")
    tool, given = tool_of(args.more[0]), _arguments(args.more[1] if len(args.more) == 2 else "{}")
    first, *rules = explained(
        policy, tool, given, workspace=os.getcwd(), trusted=args.trusted, role=args.role
    ).splitlines()
    if args.json:
        tell_json({"verdict": first, "rules": [line.strip() for line in rules]})
        return 0
    for line in (first, *rules):
        put(spelt(line))
    return 0


def _arguments(text: str) -> dict[str, Any]:
    from windlass.events.errors import UsageError

    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f'the arguments are not JSON ({error}): write them as an object, \'{{"path": "a"}}\''
        ) from None
    if not isinstance(given, dict):
        raise UsageError('the arguments are a JSON object: \'{"path": "a"}\'')
    return given


async def test(args: argparse.Namespace, policy: Policy) -> int:
    """Judges the calls of recorded sessions again."""
    import msgspec

    from windlass.cli import stores
    from windlass.cli.terminal.text import put, tell_json
    from windlass.runtime.operate.policy_trial import tried
    from windlass.store.base import Key, Query

    calls: list[TriedCall] = []
    async with stores.opened(args) as store:
        if args.more:
            keys = [await stores.session_key(store, args, name) for name in args.more]
        else:
            rows = await store.index.find(Query(tenant=args.tenant, limit=stores.FIND_MAX))
            keys = [Key(args.tenant, row.session) for row in rows]
        for key in keys:
            calls += await tried(store, key, policy)
    if args.json:
        tell_json([msgspec.to_builtins(call) for call in calls])
        return 0
    for line in _lines(calls, len(keys)):
        put(line)
    return 0


def _lines(calls: list[TriedCall], sessions: int) -> list[str]:
    """The calls that would not simply pass, as a table, and how many there are of each."""
    from windlass.cli.screen.number_words import plural, table
    from windlass.cli.terminal.text import one_line
    from windlass.cli.terminal.visible_text import spelt

    stopped = [call for call in calls if call.would != "allowed"]
    rows = [("SESSION", "CALL", "WAS", "WOULD BE", "BY", "WHAT")] if stopped else []
    for call in stopped:
        given = call.args if isinstance(call.args, str) else json.dumps(call.args, ensure_ascii=False)
        what = one_line(spelt(f"{call.tool} {given}"), ARGS_CHARS_MAX)
        rows.append((spelt(call.session), spelt(call.call_id), call.was, call.would, spelt(call.rule), what))
    count = {would: sum(call.would == would for call in calls) for would in ("allowed", "asked", "denied")}
    other = sum(call.was != call.would for call in calls)
    where = f"{plural(len(calls), 'call')} in {plural(sessions, 'session')}"
    told = f"{where}: {count['allowed']} would be allowed, {count['asked']} asked about"
    return [*table(rows), f"{told}, {count['denied']} denied; {other} otherwise than they were"]
