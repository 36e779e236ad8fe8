"""What is told of a loop's frames."""

import io

import pytest

from sslm.bench.frame_times import FrameTimes, draw_frames, frame_table

US = 1000
ONE_TO_THOUSAND = FrameTimes(
    name="wall time", durations_ns=[n * US for n in range(1000, 0, -1)], budget_ms=0.99
)
CPU = FrameTimes(name="cpu", durations_ns=[500 * US, 2500 * US], budget_ms=0.99)


@pytest.mark.parametrize(
    ("percent", "ms"), [(50.0, 0.5), (99.0, 0.99), (99.9, 0.999), (100.0, 1.0), (0.01, 0.001)]
)
def test_percentiles(percent: float, ms: float) -> None:
    """The smallest duration that so many percent of the frames do not exceed."""
    assert ONE_TO_THOUSAND.percentile_ms(percent) == ms


def test_figures() -> None:
    assert ONE_TO_THOUSAND.over_count == 10
    assert CPU.facts() == {
        "mean": 1.5,
        "median": 0.5,
        "p99": 2.5,
        "p99.9": 2.5,
        "max": 2.5,
        "frames_over": 1,
    }


def test_the_table() -> None:
    assert frame_table([CPU, ONE_TO_THOUSAND]).splitlines() == [
        "              mean   median     99 %   99.9 %      max     over",
        "cpu          1.500    0.500    2.500    2.500    2.500        1",
        "wall time    0.500    0.500    0.990    0.999    1.000       10",
    ]


@pytest.mark.parametrize(("ending", "beginning"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_picture_is_drawn(ending: str, beginning: bytes) -> None:
    pytest.importorskip("matplotlib", reason="it is in the extra `bench`, which tests do not need")
    file = io.BytesIO()
    draw_frames([ONE_TO_THOUSAND, CPU], "frames", file, ending=ending)
    assert file.getvalue().startswith(beginning)
