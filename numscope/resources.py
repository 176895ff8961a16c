"""What this process may use: CPUs and memory, as its affinity and its control groups allow.

Control groups of both versions are followed up to the root; the smallest limit counts. Nothing here
reads the environment.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def usable_cpus(root: Path = _ROOT) -> int:
    """How many CPUs may be busy at once: by affinity, and by quota, not the machine's."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, math.ceil(min(count, cpu_quota(root))))


def usable_memory(root: Path = _ROOT) -> int:
    """How many bytes may be resident: the machine's, or what a limit leaves of them."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    limits = [machine, address_space if address_space != resource.RLIM_INFINITY else machine]
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            text = _first_line(folder / name)
            if text.isdigit():
                limits.append(int(text))
    return min(limits)


def cpu_quota(root: Path = _ROOT) -> float:
    """How many CPUs' worth of time the control groups allow, infinite without a limit."""
    limits = [math.inf]
    for folder in _groups(root, "cpu"):
        quota, _, period = _first_line(folder / "cpu.max").partition(" ")
        if not period:
            quota = _first_line(folder / "cpu.cfs_quota_us")
            period = _first_line(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(quota) and int(period):
            limits.append(int(quota) / int(period))
    return min(limits)


def threads(jobs: int, memory: int, piece: int) -> tuple[int, int]:
    """How many threads compute, and how many more may wait for files meanwhile.

    Parameters
    ----------
    jobs
        How many may compute.
    memory
        Bytes that all of them may hold.
    piece
        Bytes that one of them holds.
    """
    most = max(1, memory // piece)
    computing = min(jobs, most)
    return computing, min(jobs, most - computing)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's control groups for a controller, and of those around them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    mount = root / "sys/fs/cgroup"
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            base = mount
        elif controller in controllers.split(","):
            base = mount / controller
        else:
            continue
        group = Path(path.lstrip("/"))
        yield from (base / each for each in (group, *group.parents))


def _first_line(path: Path) -> str:
    try:
        return path.read_text().partition("\n")[0].strip()
    except (OSError, ValueError):
        return ""
