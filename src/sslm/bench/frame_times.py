"""How long the frames of a loop took, and how often they took too long."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from sslm.bench.plot import require_plot_library, save_figure

NANOSECONDS_PER_MS: Final = 1_000_000
PERCENTILES: Final = (50.0, 99.0, 99.9, 100.0)

_SIZE_INCHES: Final = (8.0, 4.5)
_BIN_COUNT: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTimes:
    """What was measured of one kind of time.

    Args:
        name: Of the clock.
        durations_ns: One for each frame, at least one.
        budget_ms: What none should exceed.
    """

    name: str
    durations_ns: Sequence[int]
    budget_ms: float

    def percentile_ms(self, percent: float) -> float:
        """Return the smallest duration that so many percent of the frames do not exceed."""
        ordered = sorted(self.durations_ns)
        index = max(0, -int(-percent * len(ordered) // 100) - 1)
        return ordered[index] / NANOSECONDS_PER_MS

    @property
    def over_count(self) -> int:
        """Frames that exceeded the budget."""
        return sum(ns > self.budget_ms * NANOSECONDS_PER_MS for ns in self.durations_ns)

    def facts(self) -> dict[str, float | int]:
        """Return the figures by name, in milliseconds."""
        median, p99, p999, most = (self.percentile_ms(percent) for percent in PERCENTILES)
        return {
            "mean": statistics.fmean(self.durations_ns) / NANOSECONDS_PER_MS,
            "median": median,
            "p99": p99,
            "p99.9": p999,
            "max": most,
            "frames_over": self.over_count,
        }


def frame_table(times: Sequence[FrameTimes]) -> str:
    """Return a table with a line for each kind of time, in milliseconds."""
    width = max(len(one.name) for one in times)
    heads = ("mean", "median", "99 %", "99.9 %", "max", "over")
    lines = [" " * width + "".join(f"{head:>9}" for head in heads)]
    for one in times:
        *figures, over = one.facts().values()
        cells = "".join(f"{figure:>9.3f}" for figure in figures)
        lines.append(f"{one.name:<{width}}{cells}{over:>9}")
    return "\n".join(lines)


def draw_frames(times: Sequence[FrameTimes], title: str, file: BinaryIO, *, ending: str) -> None:
    """Write a picture: above, the times frame by frame; below, how many frames took how long.

    Args:
        times: Of the same frames, at least one kind.
        title: Stands above.
        file: Open for writing.
        ending: ``png`` or ``svg``.

    Raises:
        PlotLibraryMissingError: If matplotlib is not installed.
    """
    require_plot_library()
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    above, below = figure.subplots(2, 1)
    budget_ms = times[0].budget_ms
    highest = max(budget_ms, *(one.percentile_ms(99.9) for one in times)) * 1.15
    edges = [highest * index / _BIN_COUNT for index in range(_BIN_COUNT + 1)]
    # What is drawn last covers the rest: the first kind matters most.
    for index, one in reversed(list(enumerate(times))):
        ms = [ns / NANOSECONDS_PER_MS for ns in one.durations_ns]
        style: dict[str, Any] = {"color": f"C{index}", "label": one.name}
        above.plot(ms, ".", markersize=1.5, rasterized=True, **style)
        below.hist([min(value, highest) for value in ms], bins=edges, alpha=0.6, **style)
    above.axhline(budget_ms, color="black", linewidth=0.8)
    below.axvline(budget_ms, color="black", linewidth=0.8, label=f"budget, {budget_ms:g} ms")
    above.set_ylim(0, highest)
    below.set_xlim(0, highest)
    below.set_yscale("log")
    above.set_xlabel("frame")
    above.set_ylabel("ms")
    below.set_xlabel("ms, longer ones at the right edge")
    below.set_ylabel("frames")
    above.set_title(title)
    below.legend(loc="upper right", fontsize=8)
    save_figure(figure, file, ending=ending)
