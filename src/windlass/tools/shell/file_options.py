"""The options of commands that work on files or fetch addresses: which of them name a file, and which are harmless.

An option that is on no list here may name a file or a host in any way, joined or shortened: nothing is sure then.
"""

from __future__ import annotations

import msgspec

from .read_only.forms import ANYTHING, FORMS
from .read_only.option_table import Forms, Parsed, parsed

COPYING = "archive force interactive no-clobber recursive verbose update no-target-directory backup parents preserve"
TARGET = "target-directory suffix"
OWNING = "recursive verbose changes silent quiet no-dereference dereference preserve-root"
WRITERS: dict[str, Forms] = {
    "cp": Forms(flags="abdfilnprRsuvxLHPT", values="tS", long=COPYING, long_values=TARGET),
    "mv": Forms(flags="bfinuvT", values="tS", long=COPYING, long_values=TARGET),
    "ln": Forms(flags="bdFfiLnPrsTv", values="tS", long=f"{COPYING} symbolic relative", long_values=TARGET),
    "install": Forms(flags="bcCdDpsTv", values="gmotS", long=COPYING, long_values=f"{TARGET} mode owner group"),
    "rm": Forms(flags="dfiIrRv", long="force recursive verbose dir one-file-system interactive preserve-root"),
    "rmdir": Forms(flags="pv", long="parents verbose ignore-fail-on-non-empty"),
    "mkdir": Forms(flags="pv", values="m", long="parents verbose", long_values="mode"),
    "touch": Forms(flags="acfhm", values="drt", long="no-create", long_values="date reference time"),
    "tee": Forms(flags="aip", long="append ignore-interrupts"),
    "truncate": Forms(flags="co", values="rs", long="no-create", long_values="size reference"),
    "shred": Forms(flags="fuvxz", values="ns", long="force verbose exact zero remove", long_values="iterations size"),
    "unlink": Forms(),
    "chmod": Forms(flags="cfvRrwxXstugo", long=OWNING, long_values="reference"),
    "chown": Forms(flags="cfhvRHLP", long=OWNING, long_values="reference from"),
    "chgrp": Forms(flags="cfhvRHLP", long=OWNING, long_values="reference"),
}
FETCHERS: dict[str, Forms] = {
    "curl": Forms(
        flags="sSfkIivN#46",
        values="oDcmXHAd",
        long="silent show-error fail insecure head include verbose compressed ipv4 ipv6 http1.1 http2 no-buffer",
        long_values="output dump-header cookie-jar max-time connect-timeout request header user-agent data retry",
    ),
    "wget": Forms(
        flags="qvcS46",
        values="OoPTtU",
        long="quiet verbose continue server-response",
        long_values="output-document output-file directory-prefix timeout tries user-agent header",
    ),
    "http": Forms(operands_max=0),
    "https": Forms(operands_max=0),
}
"""What leads to other hosts than the one that is named (redirections, proxies, names that are resolved otherwise) is
not among these, nor is what writes to a file that the server names."""
MORE_FLAGS = {"tail": "fF", "ls": "D", "ps": "c", "diff": "l", "date": "I"}
MORE_VALUES = {"sort": "oTS", "tree": "o", "diff": "F", "date": "rfs"}
MORE_LONG = {"sort": "output temporary-directory", "diff": "from-file to-file exclude-from"}
WRITTEN = frozenset(
    {
        *(("cp", "-t"), ("mv", "-t"), ("ln", "-t"), ("install", "-t"), ("sort", "-o"), ("sort", "-T"), ("tree", "-o")),
        *(("curl", "-o"), ("curl", "-D"), ("curl", "-c"), ("wget", "-O"), ("wget", "-o"), ("wget", "-P")),
    }
)
WRITTEN_LONG = frozenset(
    {
        *("--target-directory", "--output", "--temporary-directory", "--dump-header", "--cookie-jar"),
        *("--output-document", "--output-file", "--directory-prefix"),
    }
)
READ = frozenset(
    {
        *(("grep", "-f"), ("egrep", "-f"), ("fgrep", "-f"), ("rg", "-f"), ("touch", "-r"), ("truncate", "-r")),
        *(("date", "-r"), ("date", "-f")),
    }
)
READ_LONG = frozenset({"--file", "--reference", "--from-file", "--to-file", "--exclude-from"})
GIVES_PATTERN = frozenset({"-e", "-f", "--regexp", "--file", "--files", "--reference", "--type-list"})
"""Options after which no operand is a pattern or an owner."""


def has_table(name: str) -> bool:
    """Whether the options of a command are known here."""
    return name in WRITERS or name in FETCHERS or (name in FORMS and name not in ANYTHING and name != "command")


def options_of(name: str, words: tuple[str, ...]) -> Parsed | None:
    """The options and operands of a command that has a table; None if one of its options is not known."""
    forms = WRITERS.get(name) or FETCHERS.get(name) or FORMS[name]
    wider = msgspec.structs.replace(
        forms,
        flags=forms.flags + MORE_FLAGS.get(name, ""),
        values=forms.values + MORE_VALUES.get(name, ""),
        long_values=f"{forms.long_values} {MORE_LONG.get(name, '')}",
        operands_max=max(forms.operands_max, 1_000) if name not in ("http", "https") else 0,
    )
    return parsed(words, wider)


def is_written(name: str, option: str) -> bool:
    """Whether the value of an option is a file or folder that is written."""
    return (name, option) in WRITTEN or option in WRITTEN_LONG


def is_read(name: str, option: str, value: str) -> bool:
    """Whether the value of an option names a file that is read."""
    return (name, option) in READ or option in READ_LONG or (name == "curl" and value.startswith("@"))
