"""What an agent may do, as data: rules, the policy that they make, and standing approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .access import Access
from .blocks import Nat, Positive, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

PermissionKind = Literal["shell", "write", "read", "mcp", "url", "memory", "tool"]

Trait = Literal["read", "write", "execute", "egress"]

WorkMode = Literal["interactive", "plan", "autopilot"]

Role = Literal["explore", "plan", "implement", "verify", "orchestrate", "custom"]

RoleMeant = Literal["explore", "plan", "implement", "verify", "orchestrate", "custom", "root"]

Trust = Literal["trusted", "untrusted", "quarantined"]


class Rate(Value, frozen=True, kw_only=True):
    """So many calls in so much time."""

    calls: Positive
    per_ms: Positive


class Rule(Value, frozen=True, kw_only=True):
    """One line of a policy: which calls it speaks of, and what becomes of them. It holds for a call if everything that
    it says does. What it says about paths, hosts, commands and traits must fit all of them if it allows; a denial or a
    question holds if one of them fits. The host judges `when`, paths, hosts and commands; the kernel learns which rules
    held, and judges what depends on the session."""

    action: Literal["allow", "ask", "deny"]
    """What becomes of a call that it matches."""
    tool: str = "*"
    """A glob of `*` and `?` over the tools' own names; a denial and a question also reach the names that models see."""
    kinds: tuple[PermissionKind, ...] = ()
    """Only calls that need one of these kinds of permission; any if empty."""
    when: str | None = None
    """A CEL expression over `args`, `call` and `session`; what it cannot judge is asked about."""
    reason: str = ""
    """Why, for the model and for people."""
    name: str = ""
    """What the log calls it."""
    missing_ok: bool = False
    """Whether the tool that it names may be missing when the agent is made: it is mounted later, or the policy is
    shared by several agents. Otherwise such a denial or question is an error."""
    paths: tuple[str, ...] = ()
    """Globs over what a call reads or writes: `/etc/**` from the root of the file system, `src/**` from the session's
    folder, a name without a slash such as `*.pem` at any depth."""
    writes: tuple[str, ...] = ()
    """The same over what it writes, makes, moves or removes."""
    hosts: tuple[str, ...] = ()
    """Names of hosts: exact ones, `*.example.org` for all beneath a name, `*` for any."""
    commands: tuple[str, ...] = ()
    """The first words of commands: `git status`; each word may be a glob, `npm run *`."""
    traits: tuple[Trait, ...] = ()
    """What a call does: read, write, execute, egress. One of which nobody said what it does fits no permission."""
    modes: tuple[WorkMode, ...] = ()
    """Only in these work modes."""
    sources: tuple[str, ...] = ()
    """Only tools that come from there, as globs: `author`, `builtin`, or whatever mounted them."""
    labels: tuple[str, ...] = ()
    """Only if what the session has seen, or the call itself, carries one of these labels."""
    rate: Rate | None = None
    """A permission holds for so many calls in so much time; a denial or a question begins after them."""
    quota: Positive | None = None
    """The same for so many calls in all."""
    quota_per: Literal["session", "run"] = "session"
    """What the quota is counted in."""
    known_only: bool = False
    """Whether a denial or a question holds by what is known of a call alone. Otherwise one that speaks of paths, hosts
    or commands is asked about if not all of them are known."""
    confined: bool = False
    """Only calls that run in a sandbox which confines files and network."""
    roles: tuple[RoleMeant, ...] = ()
    """Only in sessions whose agent has one of these roles; `root` is any session that no other one started."""
    trust: tuple[Trust, ...] = ()
    """Only in sessions whose folder somebody said is trusted, or nobody did; or that are quarantined."""


class Policy(Value, frozen=True, kw_only=False):
    """Rules as data. Deny beats ask beats allow; a rule that cannot be judged is asked about; if no rule matches,
    `default` holds. `standard` allows the author's own tools and reading, and asks about the rest."""

    if TYPE_CHECKING:
        rules: Sequence[Rule] = ()  # a list is taken as well, and kept as a tuple
    else:
        rules: tuple[Rule, ...] = ()
    """In any order: deny beats ask beats allow."""
    default: Literal["standard", "allow", "ask", "deny"] = "standard"
    """What becomes of a call that no rule matches."""
    if TYPE_CHECKING:
        exclude: Sequence[str] = ()
    else:
        exclude: tuple[str, ...] = ()
    """Globs of files that no model may see, whoever agrees: file tools and attachments are held to them, and whatever
    tool says that it touches one."""
    if TYPE_CHECKING:
        exclude_patterns: Sequence[str] = ()
    else:
        exclude_patterns: tuple[str, ...] = ()
    """Regular expressions, in RE2's syntax: what fits one is left out of every tool's result before anybody keeps it or
    a model sees it."""
    trifecta: Literal["ask", "deny", "allow"] = "ask"
    """What becomes of a call that joins untrusted input, private data and a way out, whatever a rule or a standing
    approval says of it."""
    role: Role | None = None
    """The role of the agent whose session it judges. The runtime says so with each policy that it puts on record,
    whatever stands here; None in older logs."""
    trusted: bool | None = None
    """Whether that session's folder was said to be trusted. The runtime says this too."""

    def __post_init__(self) -> None:
        for name in ("rules", "exclude", "exclude_patterns"):
            given: Any = getattr(self, name)
            msgspec.structs.force_setattr(self, name, (given,) if isinstance(given, str | Rule) else tuple(given))


class Grant(Value, frozen=True, kw_only=True):
    """A standing approval of one tool, as it was then: for all its calls, or for those whose digest or subject matches.
    It lapses when the tool or the rules about it become others, at its time, and with a fork or an import."""

    grant_id: str
    tool: str
    pattern: str | None = None
    by: str = ""
    digest: str = ""
    """What the tool was: its code, schema, contract and traits. One without it covers nothing."""
    rules: str = ""
    """The digest of the rules about the tool that it was given under; it ends with them. Empty in older logs."""
    expires_ms: Nat | None = None
    """When it lapses by itself."""
    trifecta: bool = False
    """Whether it also holds for calls that join untrusted input, private data and a way out."""
    access: Access = Access()
    """What its calls may reach beyond what their sandbox gives to all. A call that asks for more is asked about."""
    session: str = ""
    """The session of another tree that may tell this one something (`tool` is `tell`); it approves no call here."""
