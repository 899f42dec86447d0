"""A hostile program for degraded isolation: tries what a user may do to processes and files of his own.

It reads one line for each: the victim's process id, a file of the victim's user, that file's folder, a System V segment of
that user, a file of another run, and a file of that user that it may read. It prints a line for each try: DENIED, or what it got.
"""

import ctypes
import fcntl
import os
import resource
import signal
import sys

victim, secret, folder, segment, other, readable = [line.rstrip("\n") for line in sys.stdin]
victim, segment = int(victim), int(segment)
libc = ctypes.CDLL(None, use_errno=True)


def syscall(number, *arguments):
    if libc.syscall(number, *[ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]) < 0:
        raise OSError(ctypes.get_errno(), "denied")
    return 'done'


def read(path):
    with open(path, "rb") as file:
        return file.read(64)


def own_by_signal():
    reading, writing = os.pipe()
    fcntl.fcntl(reading, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(reading, fcntl.F_SETOWN, victim)
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writing, b"x")
    return "done"


def changed(change):
    """A file that every program may read, and that belongs to the worker's user."""
    file = os.open(readable, os.O_RDONLY)
    try:
        change(file)
    finally:
        os.close(file)
    return "done"


def empty(path, mode):
    os.close(os.open(path, mode | os.O_TRUNC))
    return "done"


def empty_own(mode):
    with open("mine", "w") as file:
        file.write("kept")
    return empty("mine", mode)


# Opens a file for neither reading nor writing.
NEITHER = 3

TRIES = {
    "environment": lambda: read(f"/proc/{victim}/environ"),
    "memory": lambda: read(f"/proc/{victim}/mem"),
    "memory map": lambda: read(f"/proc/{victim}/maps"),
    "trace": lambda: syscall(101, 16, victim, 0, 0),
    "read memory": lambda: syscall(310, victim, 0, 0, 0, 0, 0),
    "read a secret": lambda: read(secret),
    "open another run's file": lambda: read(other),
    "list another run's files": lambda: os.listdir(os.path.dirname(other)),
    "list a folder": lambda: os.listdir(folder),
    "write a file": lambda: open(secret, "ab").write(b"x"),
    "make a file": lambda: open(folder + "/made", "wb").write(b"x"),
    "remove a file": lambda: os.unlink(secret),
    "rename a file": lambda: os.rename(secret, folder + "/renamed"),
    "truncate a file": lambda: os.truncate(secret, 0),
    "empty a file that is open for nothing": lambda: empty(secret, NEITHER),
    "empty a file that is open for reading": lambda: empty(readable, os.O_RDONLY),
    "empty an own file in the first way": lambda: empty_own(NEITHER),
    "empty an own file in the second way": lambda: empty_own(os.O_RDONLY),
    "change a mode": lambda: os.chmod(secret, 0o666),
    "change a folder's mode": lambda: os.chmod(folder, 0),
    "change an owner": lambda: os.chown(secret, os.getuid(), os.getgid()),
    "change times": lambda: os.utime(secret, (0, 0)),
    "change a mode by descriptor": lambda: changed(lambda file: os.fchmod(file, 0)),
    "change an owner by descriptor": lambda: changed(lambda file: os.fchown(file, -1, os.getgid())),
    "change times by descriptor": lambda: changed(lambda file: os.utime(file, (0, 0))),
    "change an attribute by descriptor": lambda: changed(lambda file: os.setxattr(file, "user.x", b"x")),
    "change an attribute": lambda: os.setxattr(secret, "user.x", b"x"),
    "signal": lambda: os.kill(victim, signal.SIGKILL),
    "signal everything": lambda: os.kill(-1, signal.SIGKILL),
    "signal a thread": lambda: syscall(234, victim, victim, signal.SIGKILL),
    "signal a descriptor": lambda: signal.pidfd_send_signal(os.pidfd_open(victim), signal.SIGKILL),
    "signal by a pipe": own_by_signal,
    "limit CPU time": lambda: resource.prlimit(victim, resource.RLIMIT_CPU, (1, 1)),
    "lower a priority": lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
    "lower all priorities": lambda: os.setpriority(os.PRIO_USER, 0, 19),
    "change a scheduler": lambda: os.sched_setscheduler(victim, os.SCHED_IDLE, os.sched_param(0)),
    "pin to a processor": lambda: os.sched_setaffinity(victim, {0}),
    "starve of the disk": lambda: syscall(251, 1, victim, 3 << 13),
    "read shared memory": lambda: syscall(30, segment, 0, 0o10000),
    "remove shared memory": lambda: syscall(31, segment, 0, 0),
    "connect": lambda: __import__("socket").socket(),
}

for name, attempt in TRIES.items():
    try:
        print(f"{name}: {attempt()!r}")
    except OSError:
        print(f"{name}: DENIED")
