"""TensorBoard reads what is exported: a run per layer, a tag per chart, tokens as the step."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from numscope.errors import MissingExtra
from numscope.tensorboard import write
from tests.stories import noise_only, tables

CHARTS = tables(noise_only(0, points=13))


def test_without_tensorboard_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(MissingExtra, match=r"pip install 'numscope\[tensorboard\]'"):
        write(tmp_path, CHARTS)


@pytest.mark.filterwarnings("ignore")
def test_what_is_written_is_what_tensorboard_reads(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    paths = write(tmp_path, CHARTS)
    assert [path.parent.relative_to(tmp_path).as_posix() for path in paths] == [
        f"ling/layer_{layer:02}" for layer in (0, 4, 8, 12, 16)
    ]
    for layer, path in zip(CHARTS[0].layers, paths, strict=True):
        events = EventAccumulator(str(path.parent))
        events.Reload()
        assert sorted(events.Tags()["scalars"])[:2] == [
            "distortion/activations_1x128",
            "distortion/gradient_transpose_128x1",
        ]
        scalars = events.Scalars("underflow/gradient_transpose_128x1")
        assert [each.step for each in scalars] == list(CHARTS[4].x)
        for each, value in zip(scalars, CHARTS[4].column(layer), strict=True):
            assert math.isclose(each.value, value, rel_tol=1e-7)


@pytest.mark.filterwarnings("ignore")
def test_a_recipe_is_one_folder_and_its_own(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    labels = ["e4m3:1x*:scale_from=amax/max", "e4m3_1xall_scale_from=amax_max"]
    paths = write(tmp_path, [replace(CHARTS[0], recipe=label) for label in labels])
    assert len(set(paths)) == 10
    assert {path.parent.parent.relative_to(tmp_path).as_posix() for path in paths} == {
        "e4m3_1xall_scale_from=amax_max",
        "e4m3_1xall_scale_from=amax_max_2",
    }


@pytest.mark.filterwarnings("ignore")
def test_a_second_export_replaces_the_first(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")
    first = [path.read_bytes() for path in write(tmp_path, CHARTS)]
    assert [path.read_bytes() for path in write(tmp_path, CHARTS)] == first
    assert len(list(tmp_path.rglob("*.numscope"))) == 5
