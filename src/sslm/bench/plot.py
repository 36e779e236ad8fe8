"""A roofline drawn as a picture: what each case reaches, below what this machine allows."""

import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from sslm.artifact.atomic_file import require_place
from sslm.bench.measuring import Measurement
from sslm.errors.commands import PlotLibraryMissingError
from sslm.errors.reading import unreadable

ENDINGS: Final = ("png", "svg")
"""Kinds of pictures, by the ending of a file's name."""

_SIZE_INCHES: Final = (8.0, 5.0)
_LEFT_SHARE: Final = 0.4
_RIGHT_FACTOR: Final = 2.5


def require_plot_library() -> None:
    """Raise unless pictures can be drawn here.

    Raises:
        PlotLibraryMissingError: If matplotlib is not installed.
    """
    try:
        is_there = importlib.util.find_spec("matplotlib") is not None
    except ValueError:
        is_there = False
    if not is_there:
        raise PlotLibraryMissingError


def require_picture(path: Path, *, is_replaced: bool) -> None:
    """Raise before anything is measured what would keep its picture from being drawn.

    Raises:
        PlotLibraryMissingError: If matplotlib is not installed.
        SslmError: As :func:`sslm.artifact.atomic_file.require_place` does.
    """
    require_plot_library()
    require_place(path, is_replaced=is_replaced)


def draw(measurements: Sequence[Measurement], title: str, *, ending: str) -> bytes:
    """Return the picture of the cases with the first case's number of threads.

    Across: products (a weight times a number) for each byte that is read. Up: products per second.
    The slope is the read ceiling; the level is the fastest that linear ops were seen to compute.

    Args:
        measurements: At least one.
        title: Stands above.
        ending: One of :data:`ENDINGS`.

    Raises:
        PlotLibraryMissingError: If matplotlib is not installed.
        UnreadableFileError: If it cannot read one of its own files.
    """
    require_plot_library()
    file = io.BytesIO()
    try:
        _draw(measurements, title, file, ending)
    except OSError as error:
        name = str(error.filename or "a file of matplotlib")
        raise unreadable(name, error) from error
    return file.getvalue()


def _draw(measurements: Sequence[Measurement], title: str, file: BinaryIO, ending: str) -> None:
    from matplotlib.figure import Figure

    threads = measurements[0].case.threads
    own = [one for one in measurements if one.case.threads == threads]
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    _draw_roof(axes, own)
    for index, one in enumerate(own):
        x, y = one.products / one.read_bytes, one.products / one.median_s / 1e9
        axes.plot([x], [y], "o")
        axes.annotate(
            f"{one.case.name}: {one.tokens_per_s:.0f} tokens/s",
            (x, y),
            textcoords="offset points",
            # By turns below and above, as neighbours in the list are often neighbours here.
            xytext=(6, -12 if index % 2 else 5),
            fontsize=8,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.set_xlabel("products per byte read")
    axes.set_ylabel("products per second, in billions")
    axes.set_title(f"{title}, threads: {threads}")
    axes.legend(loc="upper left", fontsize=8)
    save_figure(figure, file, ending=ending)


def save_figure(figure: Any, file: BinaryIO, *, ending: str) -> None:
    """Write a figure; the same numbers give the same file."""
    date = {"Date": None} if ending == "svg" else {}
    figure.savefig(file, format=ending, metadata=date)


def _draw_roof(axes: Any, measurements: Sequence[Measurement]) -> None:
    ceiling = max(one.ceiling for one in measurements)
    level = max(one.linear_products_per_s for one in measurements) / 1e9
    intensities = [one.products / one.read_bytes for one in measurements]
    left, right = min(intensities) * _LEFT_SHARE, max(intensities) * _RIGHT_FACTOR
    knee = max(level * 1e9 / ceiling, left)
    right = max(right, knee * _RIGHT_FACTOR)
    slope = [value * ceiling / 1e9 for value in (left, knee)]
    axes.plot([left, knee], slope, "-", label=f"read ceiling, {ceiling / 1e9:.1f} GB/s")
    axes.plot([knee, right], [level] * 2, "--", label=f"linear ops at their fastest, {level:.0f}")
