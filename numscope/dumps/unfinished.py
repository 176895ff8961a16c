"""Whether somebody is still writing a file of this machine, as far as the system tells.

Nothing here reads a dump or waits for one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on every system
    fcntl = None  # type: ignore[assignment]

_MOUNTS = Path("/proc/self/mountinfo")

_SHARED = frozenset(
    (
        *("afs", "beegfs", "ceph", "cifs", "fhgfs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs"),
        *("nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "wekafs", "fuse.beegfs"),
        *("fuse.ceph-fuse", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "fuse.rclone"),
        *("fuse.s3fs", "fuse.sshfs"),
    )
)
"""File systems that several machines write to, by their names in the table of mounts."""


def has_writer(descriptor: int) -> bool:
    """Whether a process of this machine has a file open to write to it, given it open for reading.

    A system that does not tell is taken to say no.
    """
    # A file server may refuse a lease for reasons of its own.
    return _is_refused_a_lease(descriptor) and not is_shared(os.fstat(descriptor).st_dev)


def is_shared(device: int, mounts: Iterable[str] | None = None) -> bool:
    """Whether several machines write to a file system, so that this one does not know who does.

    Parameters
    ----------
    device
        The file system, as of `os.stat`.
    mounts
        The lines of the table of mounts, as in proc_pid_mountinfo(5); the system's if `None`.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _mounts() if mounts is None else mounts:
        before, _, after = line.partition(" - ")
        if before.split(" ")[2:3] == [number]:
            return after.split(" ")[0] in _SHARED
    return False


def _mounts() -> list[str]:
    try:
        return _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _is_refused_a_lease(descriptor: int) -> bool:
    """Whether the system gives no lease on a file, which it does while nobody may write to it.

    The lease ends at once; whoever opens the file to write to it meanwhile waits for that.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        # The signal to whoever holds a lease would otherwise be one that ends the process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # somebody else's file, or a file system without leases
        return False
    return False
