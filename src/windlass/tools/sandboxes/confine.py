"""The last step into a sandbox: a small script that gives up what a program must not have, and becomes the program.

It is run by its path with `python -I -S`, inside of whatever the kind built around it; it must import little and
nothing of ours. It takes the program's environment out of variables with a prefix, so that what is meant for the
program (a library to be loaded, say) has no power over those who build the sandbox.

    confine.py [status=FD] [filter=inner|alone] [held=all|writes] [read=PATH]... [write=PATH]... [network=own]
               [forward=PORT:SOCKET] -- PROGRAM ARGUMENT...

On the status descriptor it says `started`, and perhaps `failed ERRNO`; if neither comes, the sandbox was not built.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module itself takes too long to be loaded
    from typing import Any

PREFIX = "SANDBOXED_"

# --- Landlock: which files ---

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION, BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEVICE = (1 << n for n in (0, 1, 2, 3, 14, 15))
REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM, REFER = (
    1 << n for n in range(4, 14)
)
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
READS = EXECUTE | READ_FILE | READ_DIR
CHANGES = (
    WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM | REFER
)
NEVER = MAKE_CHAR | MAKE_BLOCK
NET_ALL, SCOPED_ALL = 0b11, 0b11
PORT, CONNECT = 2, 0b10
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2
DROP_FROM_BOUND, SET_SECURE_BITS, ROOT_IS_NOBODY, CAPABILITIES_V3, CAPABILITIES_MAX = 24, 28, 0b11, 0x20080522, 64

# --- seccomp: which calls of the system ---

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
OLD_NUMBERS = 0x40000000
NEW_NAMESPACES = 0x7E020080
"""The flags of clone that make namespaces: mount, cgroup, uts, ipc, user, pid, net, time."""
TYPE_INTO_TERMINAL, PASTE_INTO_CONSOLE = 0x5412, 0x541C
CALLS = {
    "socket": (41, 198), "clone": (56, 220), "ioctl": (16, 29),
}  # fmt: skip
NEVER_CALLED = {
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "fanotify_init": (300, 262),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "settimeofday": (164, 170), "adjtimex": (159, 171), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162), "syslog": (103, 116), "vhangup": (153, 58),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438),
}  # fmt: skip
"""What no program needs that works in a folder, and what has led out of sandboxes. By name, on each machine."""
ALONE_NEVER_CALLED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "fchownat": (260, 54), "fchown": (93, 55), "chown": (92, None), "lchown": (94, None),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
"""What reaches other processes and files of this user if there is no namespace around the program."""
AS_IF_UNKNOWN = {"clone3": (435, 435), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426)}
"""Programs do without these when they are told that there is no such call; what they do could not be looked into."""
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
ALONE_SOCKETS = (INET, INET6)
"""Of a program that has a network of its own and nothing else: sockets in files would lead to others' programs."""
NEW_USER_AND_NETWORK = 0x50000000
FLAGS_OF_INTERFACE, INTERFACE_UP = 0x8914, 0x1
INNER_SOCKETS = (UNIX, INET, INET6, NETLINK)
"""Inside a network of its own, where the rest (the host of a virtual machine, say) is still the outer one's."""


def main(words: list[str]) -> None:
    """Does all of it; returns only by an exception."""
    end = words.index("--")
    options = [word.partition("=")[::2] for word in words[:end]]
    given = dict(options)
    status = int(given["status"]) if "status" in given else -1
    environ = {
        name[len(PREFIX) :]: value
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and value is not None
    }
    libc = library()
    if "network" in given:
        own_network(libc)
    port, _, path = given.get("forward", "0:").partition(":")
    if path:
        forward(int(port), path, status)
    give_up_privileges(libc)
    checked(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    if "held" in given:
        reads = [value for name, value in options if name == "read"]
        writes = [value for name, value in options if name == "write"]
        hold_files(reads, writes, everything=given["held"] == "all", port=int(port))
    if "filter" in given:
        hold_calls(alone=given["filter"] == "alone", network="network" in given)
    become(words[end + 1 :], environ, status)


def become(argv: list[str], environ: dict[str, str], status: int) -> None:
    """Turns this process into the program; says why if that cannot be."""
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    if status >= 0:
        os.set_inheritable(status, False)
        os.write(status, b"started\n")
    os.closerange(3, max(3, status))
    os.closerange(max(3, status + 1), 1 << 20)
    try:
        os.execvpe(argv[0], argv, environ)
    except OSError as error:
        if status >= 0:
            os.write(status, f"failed {error.errno}\n".encode())
        else:
            sys.stderr.write(f"the program {argv[0]!r} cannot be run: {error.strerror}\n")
        os._exit(127)


def library() -> Any:
    """The C library, whose functions take whatever they are given."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> int:
    """A result of the system. Raises `OSError` for one that says that it did not work."""
    if result < 0:
        import ctypes

        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def give_up_privileges(libc: Any) -> None:
    """Root becomes a user like any other, for good; others have nothing to give up."""
    import ctypes

    for capability in range(CAPABILITIES_MAX):
        libc.prctl(DROP_FROM_BOUND, capability, 0, 0, 0)
    libc.prctl(SET_SECURE_BITS, ROOT_IS_NOBODY, 0, 0, 0)
    head = struct.pack("=Ii", CAPABILITIES_V3, 0)
    checked(libc.capset(ctypes.c_char_p(head), ctypes.c_char_p(bytes(24))))


# --- Landlock ---


def landlock_version() -> int:
    """Which version of Landlock this kernel has; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    try:
        return max(0, checked(library().syscall(CREATE_RULESET, None, 0, ASK_VERSION)))
    except OSError:
        return 0


def known_accesses(version: int) -> int:
    """The accesses to files that a version can hold."""
    bits = 13 + (version >= 2) + (version >= 3) + (version >= 5)
    return (1 << bits) - 1


def hold_files(reads: list[str], writes: list[str], *, everything: bool, port: int = 0) -> None:
    """Allows these paths and what is beneath them, and refuses every other; without `everything` reading stays free.
    A port is the only one that is connected to."""
    import ctypes

    version = landlock_version()
    known = known_accesses(version)
    handled = known if everything else known & (CHANGES | NEVER)
    fields = [handled]
    if version >= 4:
        fields.append(NET_ALL if everything else 0)
    if version >= 6:
        fields.append(SCOPED_ALL if everything else 0)
    about = struct.pack(f"={len(fields)}Q", *fields)
    libc = library()
    ruleset = checked(libc.syscall(CREATE_RULESET, ctypes.c_char_p(about), ctypes.c_size_t(len(about)), 0))
    for paths, rights in ((reads, READS), (writes, READS | CHANGES | IOCTL_DEVICE)):
        for path in paths:
            allow(libc, ruleset, path, rights & handled)
    if port and everything and version >= 4:
        rule = struct.pack("=QQ", CONNECT, port)
        checked(libc.syscall(ADD_RULE, ruleset, PORT, ctypes.c_char_p(rule), 0))
    checked(libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def allow(libc: Any, ruleset: int, path: str, rights: int) -> None:
    """Adds a rule for a path; one that is not there needs none."""
    import ctypes

    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(f"/proc/self/fd/{fd}") and not os.path.isdir(path):
        rights &= OF_FILES
    rule = struct.pack("=Qi", rights, fd)
    if rights:
        checked(libc.syscall(ADD_RULE, ruleset, BENEATH, ctypes.c_char_p(rule), 0))
    os.close(fd)


# --- seccomp ---


def hold_calls(*, alone: bool, network: bool = False) -> None:
    """Refuses calls of the system, for this process and whatever it starts."""
    import ctypes

    program = call_filter(platform.machine(), alone=alone, network=network)
    held = ctypes.create_string_buffer(program, len(program))
    about = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
    checked(library().prctl(SET_SECCOMP, FILTER, ctypes.c_char_p(about), 0, 0))


def call_filter(machine: str, *, alone: bool, network: bool = False) -> bytes:
    """The filter as the kernel reads it; `network`: a program that stands alone has a network of its own. Raises
    `OSError` for a machine whose calls are not known here."""
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"no filter of system calls is known for {machine}")
    architecture, column = MACHINES[machine]
    made = [
        _step(LOAD, 4), _step(EQUAL, architecture, 1, 0), _step(RETURN, KILL),
        _step(LOAD, 0), _step(AT_LEAST, OLD_NUMBERS, 0, 1), _step(RETURN, ERROR | errno.EPERM),
    ]  # fmt: skip
    refused = {**NEVER_CALLED, **(ALONE_NEVER_CALLED if alone else {})}
    for calls, code in ((refused, errno.EPERM), (AS_IF_UNKNOWN, errno.ENOSYS)):
        for numbers in calls.values():
            number = numbers[column]
            if number is not None:
                made += [_step(EQUAL, number, 0, 1), _step(RETURN, ERROR | code)]
    sockets = INNER_SOCKETS if not alone else ALONE_SOCKETS if network else ()
    made += _on(CALLS["socket"][column], 16, [(EQUAL, each, ALLOW) for each in sockets], ERROR | errno.EACCES)
    made += _on(CALLS["clone"][column], 16, [(ANY_BIT, NEW_NAMESPACES, ERROR | errno.EPERM)], ALLOW)
    typed = [(EQUAL, each, ERROR | errno.EPERM) for each in (TYPE_INTO_TERMINAL, PASTE_INTO_CONSOLE)]
    made += _on(CALLS["ioctl"][column], 24, typed, ALLOW)
    made.append(_step(RETURN, ALLOW))
    return b"".join(made)


def _on(number: int, argument: int, cases: list[tuple[int, int, int]], otherwise: int) -> list[bytes]:
    """What becomes of one call by the value of an argument."""
    inner = [_step(LOAD, argument)]
    for test, value, verdict in cases:
        inner += [_step(test, value, 0, 1), _step(RETURN, verdict)]
    inner.append(_step(RETURN, otherwise))
    return [_step(EQUAL, number, 0, len(inner)), *inner]


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)


# --- the way to the proxy ---


def own_network(libc: Any) -> None:
    """Leaves the machine's network for one that has nothing but its own loopback. Raises `OSError` if the system does
    not let this user make one."""
    import fcntl
    import socket

    user, group = os.getuid(), os.getgid()
    checked(libc.unshare(NEW_USER_AND_NETWORK))
    for name, said in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(said)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_one:
        fcntl.ioctl(any_one, FLAGS_OF_INTERFACE, struct.pack("16sh14x", b"lo", INTERFACE_UP))


def forward(port: int, path: str, status: int) -> None:
    """Has a child carry whatever comes to a port of this network to a socket in a file, which leads to the proxy."""
    import socket

    server = socket.create_server(("127.0.0.1", port), backlog=64)
    folder, name = os.path.split(path)
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY)  # a path of a socket is short; that of a folder need not be
    if (child := os.fork()) != 0:
        server.close()
        os.close(at)
        os.waitpid(child, 0)
        return
    if os.fork():  # nobody's child, so that a program that waits for all of its own does not wait for this
        os._exit(0)
    if status >= 0:
        os.close(status)
    for stream in (0, 1, 2):
        os.close(stream)
    import _thread

    while True:
        try:
            near, _ = server.accept()
            _thread.start_new_thread(_carried, (near, f"/proc/self/fd/{at}/{name}"))
        except OSError:
            continue


def _carried(near: Any, path: str) -> None:
    """One connection, both ways, to its end."""
    import _thread
    import socket

    far = socket.socket(socket.AF_UNIX)
    try:
        far.connect(path)
    except OSError:
        near.close()
        return
    _thread.start_new_thread(_pumped, (near, far))
    _pumped(far, near)


def _pumped(source: Any, sink: Any) -> None:
    import socket

    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


if __name__ == "__main__":
    main(sys.argv[1:])
