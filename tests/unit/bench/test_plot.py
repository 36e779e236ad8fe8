"""The picture of the roofline."""

import errno
import sys
from types import ModuleType

import pytest

from sslm.bench import Case, Measurement
from sslm.bench.plot import draw, require_plot_library
from sslm.errors.commands import PlotLibraryMissingError
from sslm.errors.reading import ReadResourcesError

MEASUREMENT = Measurement(
    case=Case(kind="prompt", tokens=8),
    seconds=(0.5,),
    mapped_ceilings=(1e9,),
    huge_ceilings=(2e9,),
    read_bytes=1000,
    products=5000,
    op_ns={"linear": 1500, "logits": 1000, "attention": 9000},
)


def test_a_missing_library_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlotLibraryMissingError, match=r"pip install 'sslm\[bench\]'"):
        require_plot_library()
    with pytest.raises(PlotLibraryMissingError):
        draw([MEASUREMENT], "model", ending="png")


@pytest.mark.parametrize(("ending", "beginning"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_picture_is_drawn(ending: str, beginning: bytes) -> None:
    pytest.importorskip("matplotlib", reason="it is in the extra `bench`, which tests do not need")
    assert draw([MEASUREMENT], "model", ending=ending).startswith(beginning)


def test_a_library_that_cannot_read_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreadable(ModuleType):
        def __getattr__(self, name: str) -> None:
            raise OSError(errno.EMFILE, "Too many open files", "DejaVuSans.ttf")

    monkeypatch.setattr("sslm.bench.plot.require_plot_library", lambda: None)
    monkeypatch.setitem(sys.modules, "matplotlib", ModuleType("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", Unreadable("matplotlib.figure"))
    with pytest.raises(ReadResourcesError, match=r"'DejaVuSans.ttf'.*: Too many open files"):
        draw([MEASUREMENT], "model", ending="png")
