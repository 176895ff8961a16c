"""The snippets of the README's "In a batch job" run, with a stub where SLURM is needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from numscope.cli import run
from tests.batches import contents, small_dump
from tests.examples import REPOSITORY, gradient, save_dump

_README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
_SECTION = _README.partition("## In a batch job\n")[2].partition("\n## ")[0]
_BLOCKS = re.findall(r"^```([a-z]+)\n(.*?)^```$", _SECTION, re.DOTALL | re.MULTILINE)
JOB, ARRAY = (text for language, text in _BLOCKS if language == "bash")
(CLUSTER,) = (text for language, text in _BLOCKS if language == "python")
(CRONTAB,) = (text for language, text in _BLOCKS if language == "crontab")

#: Runs what is wrapped at once: once, or once for each task of the array.
_SBATCH = """#!/bin/bash
while [ $# -gt 0 ]; do
    case "$1" in
        --array=1-*) tasks="${1#--array=1-}" ;;
        --wrap) wrapped="$2"; shift ;;
    esac
    shift
done
for task in $(seq "${tasks:-1}"); do
    if [ -n "$tasks" ]; then
        export SLURM_ARRAY_TASK_ID="$task" SLURM_ARRAY_TASK_COUNT="$tasks"
        export SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX="$tasks"
    fi
    bash -c "$wrapped" >> "$RESULTS.out" 2>&1 || exit
done
echo 4711
"""

_JOBQUEUE = """
from distributed import LocalCluster

class SLURMCluster(LocalCluster):
    def __init__(self, *, cores, memory, walltime):
        super().__init__(
            n_workers=1, threads_per_worker=2, processes=False, protocol="tcp",
            dashboard_address=None,
        )

    def adapt(self, *, maximum_jobs):
        pass
"""


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with numscope and SLURM on the path, and folders of odd names."""
    programs = tmp_path / "bin"
    programs.mkdir()
    numscope = f'#!/bin/sh\nexec "{sys.executable}" -m numscope "$@"\n'
    for name, text in (("numscope", numscope), ("sbatch", _SBATCH)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "dask_jobqueue.py").write_text(_JOBQUEUE)
    dump = small_dump(tmp_path / "Ada's $HOME dump")
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": f"{tmp_path}:{REPOSITORY}",
        "DUMPS": str(dump),
        "RESULTS": str(tmp_path / 'the "out" of Ada\'s run'),
    }


def _call(*command: str, place: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        command, env=place, check=False, capture_output=True, text=True, timeout=120
    )


def _tables_of_one_run(place: dict[str, str]) -> dict[str, bytes]:
    out = f"{place['RESULTS']}-whole"
    assert run(["analyze", place["DUMPS"], "--out", out, "--no-charts", "-q"]) == 0
    return contents(Path(out))


def test_a_job(place: dict[str, str]) -> None:
    done = _call("bash", "-c", JOB, place=place)
    assert done.returncode == 0, done.stderr
    assert '"event": "progress"' in done.stderr
    assert contents(Path(place["RESULTS"])) == _tables_of_one_run(place)


def test_an_array_and_the_merge(place: dict[str, str]) -> None:
    done = _call("bash", "-c", ARRAY, place=place)
    log = Path(f"{place['RESULTS']}.out").read_text()
    assert (done.returncode, done.stdout) == (0, "4711\n"), done.stderr + log
    assert log.count("numscope: shard ") == 8
    assert contents(Path(place["RESULTS"])) == _tables_of_one_run(place)


def test_a_cluster(place: dict[str, str]) -> None:
    pytest.importorskip("distributed")
    done = _call(sys.executable, "-c", CLUSTER, place=place)
    assert done.returncode == 0, done.stderr
    assert contents(Path(place["RESULTS"])) == _tables_of_one_run(place)


@pytest.mark.skipif(not shutil.which("flock"), reason="needs flock")
def test_a_crontab_line(place: dict[str, str]) -> None:
    command = re.sub(r"^(\S+ ){5}", "", CRONTAB)
    for step in (60, 61):
        save_dump(
            Path(place["DUMPS"]) / f"step_{step}.safetensors",
            {"layers.0.fc.gradient": gradient(4, 40)},
        )
        done = _call("sh", "-c", command, place=place)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert contents(Path(place["RESULTS"])) == _tables_of_one_run(place)
