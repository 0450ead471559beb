"""What a confined process sees of this machine: programs and libraries, the settings that they need, nothing of
anybody's home but the toolchains on `PATH`. Everything that is not named here is hidden, so no list of secrets need be
complete."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

from windlass.events.user_folders import home_folder
from windlass.events.values.blocks import Value

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
SETTINGS = (
    "alternatives", "bash.bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf", "crypto-policies",
    "debian_version", "fonts", "gai.conf", "gitconfig", "group", "host.conf", "hosts", "inputrc", "java", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime", "lsb-release", "magic", "maven",
    "mime.types", "nsswitch.conf", "os-release", "passwd", "perl", "pki", "profile", "profile.d", "protocols",
    "python3", "python3.11", "python3.12", "python3.13", "resolv.conf", "rpc", "services", "shells", "skel", "ssl",
    "terminfo", "timezone", "xattr.conf",
)  # fmt: skip
"""Of /etc. Keys of the machine and hashes of passwords are not among it."""
SECRETS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/windlass",
    ".local/state/windlass", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".vault-token", ".password-store",
    ".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium",
)  # fmt: skip
"""Of a home: hidden even if the home itself is the folder that is worked in."""
TOOLCHAINS = (".rustup", ".nvm", ".sdkman/candidates", ".local/share/uv/python", ".local/share/mise", "go/bin", ".bun")
"""Of a home: what programs on `PATH` are often only a way to."""
KERNEL_FACTS = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys/kernel", "sys/vm", "uptime", "version")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


class Visible(Value, frozen=True, kw_only=True):
    """What one sandbox shows of this machine, as whole paths that there are."""

    system: tuple[str, ...]
    """Programs, libraries and settings; some of them links."""
    toolchains: tuple[str, ...]
    """Folders outside of the system that programs are taken from, and what the owner named."""
    hidden: tuple[str, ...]
    """What is covered up, though it lies in something that is shown."""


def visible_paths(root: str, readable: Iterable[str], hidden: Iterable[str]) -> Visible:
    """What processes see whose folder is `root`. `readable` and `hidden` are the owner's own."""
    system = [path for path in SYSTEM if os.path.lexists(path)]
    settings = [path for name in SETTINGS if os.path.lexists(path := f"/etc/{name}")]
    shown = [*_toolchains(), *readable]
    toolchains: list[str] = []
    for path in dict.fromkeys(shown):
        if not any(beneath(path, base) for base in (*SYSTEM, root, *toolchains)):
            toolchains.append(path)
    covered = [path for path in (*secret_places(), *hidden) if os.path.lexists(path)]
    bases = (root, *toolchains)
    return Visible(
        system=(*system, *settings),
        toolchains=tuple(toolchains),
        hidden=tuple(path for path in dict.fromkeys(covered) if any(beneath(path, base) for base in bases)),
    )


def home() -> str:
    """The home of whoever runs this."""
    return os.path.realpath(home_folder())


def secret_places() -> Iterator[str]:
    """Where secrets and the state of ours are kept, as far as that is known beforehand."""
    yield from (os.path.join(home(), name) for name in SECRETS)
    for variable in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        given = os.environ.get(variable, "")
        if os.path.isabs(given):
            yield os.path.join(os.path.realpath(given), "windlass")


def _toolchains() -> Iterator[str]:
    """Where programs are found, and the interpreter that we run on; never a home as a whole."""
    searched = os.environ.get("PATH", "").split(os.pathsep)
    switches = [os.path.dirname(path) for path in searched if os.path.basename(path) == "shims"]
    known = [os.path.join(home(), name) for name in TOOLCHAINS]
    for path in (sys.base_prefix, sys.prefix, *switches, *known, *searched):
        if os.path.isabs(path) and os.path.isdir(path) and not beneath(home(), os.path.realpath(path)):
            yield os.path.normpath(path)


def beneath(path: str, base: str) -> bool:
    """Whether a path is another one or lies beneath it, by their names."""
    return path == base or path.startswith(base.rstrip("/") + "/")
