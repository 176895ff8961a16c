"""What a process may use, as control groups of both versions say it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from numscope.resources import cpu_quota, threads, usable_cpus, usable_memory

MB = 2**20


def _machine(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) == math.inf
    assert usable_memory(tmp_path) > 100 * MB


@pytest.mark.parametrize(
    ("cgroup", "files", "cpus"),
    [
        ("0::/slurm/job_7/step_0\n", {"slurm/job_7/cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n"}, 2.0),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5),
        (
            "5:memory:/m\n4:cpu,cpuacct:/job\n0::/\n",
            {"cpu/job/cpu.cfs_quota_us": "300000\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
            3.0,
        ),
        (
            "4:cpu,cpuacct:/job\n",
            {"cpu/job/cpu.cfs_quota_us": "-1\n", "cpu/job/cpu.cfs_period_us": "100000\n"},
            math.inf,
        ),
        ("nonsense\n", {"cpu.max": "x y z"}, math.inf),
    ],
)
def test_the_smallest_cpu_quota_counts(
    cgroup: str, files: dict[str, str], cpus: float, tmp_path: Path
) -> None:
    root = _machine(tmp_path, cgroup, files)
    assert cpu_quota(root) == cpus
    assert usable_cpus(root) == min(max(math.ceil(min(cpus, 1e6)), 1), usable_cpus(Path("/none")))


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        ("0::/job/step\n", {"job/memory.max": f"{64 * MB}\n", "job/step/memory.max": "max\n"}),
        ("0::/job\n", {"job/memory.max": f"{80 * MB}\n", "memory.high": f"{64 * MB}\n"}),
        ("9:memory:/job\n", {"memory/job/memory.limit_in_bytes": f"{64 * MB}\n"}),
        # Inside a container the path of the group may not be there, only its own root.
        ("0::/../../outside\n", {"memory.max": f"{64 * MB}\n"}),
    ],
)
def test_the_smallest_memory_limit_counts(
    cgroup: str, files: dict[str, str], tmp_path: Path
) -> None:
    assert usable_memory(_machine(tmp_path, cgroup, files)) == 64 * MB


@pytest.mark.parametrize(
    ("jobs", "memory", "expected"),
    [
        (8, 10_000, (8, 8)),  # as many wait for files as compute
        (8, 1200, (8, 4)),
        (8, 800, (8, 0)),
        (8, 350, (3, 0)),
        (8, 10, (1, 0)),
    ],
)
def test_memory_bounds_the_threads(jobs: int, memory: int, expected: tuple[int, int]) -> None:
    assert threads(jobs, memory, piece=100) == expected
