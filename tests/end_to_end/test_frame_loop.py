"""The example runs, and its characters say what they would say without any slices."""

import gc
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import frame_loop

from tests.converted import stories_artifact

FRAMES = 60
LINES = 5
"""One more than there are characters, so that one of them says a second line."""


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    """Let the collector see again what the example takes out of its sight."""
    yield
    gc.unfreeze()


def test_the_figures_and_the_same_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """However many frames it takes: a slow machine computes less in each."""
    options = ["--lines", str(LINES), "--budget-ms", "2", "--unpaced", "--check", "--json"]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["budget_ms"], facts["differing_lines"]) == (2.0, 0)
    # Several may end in the last frame.
    assert LINES <= facts["lines"] < LINES + len(frame_loop.NAMES)
    assert facts["tokens"] > facts["lines"]
    assert set(facts["ms"]) == {"thread CPU time", "wall time"}


def test_a_number_of_frames(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--frames", str(FRAMES), "--budget-ms", "2", "--unpaced", "--json"]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["frames"], facts["differing_lines"]) == (FRAMES, None)


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--lines", "2", "--unpaced", "--characters", "2"]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 0
    *lines, facts, _, cpu, wall = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(("Ada: ", "Bram: "))
    assert re.match(r"\d+ frames, 4\.0 ms of each for the model; [23] lines, \d+ tokens$", facts)
    assert cpu.startswith("thread CPU time ")
    assert wall.startswith("wall time ")


def test_a_line_that_differs_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(frame_loop, "differing_lines", lambda model, scene: 1)
    options = ["--lines", "1", "--unpaced", "--check"]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 1
    assert capsys.readouterr().out.endswith("lines that differ from the unsliced answer: 1\n")


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="it is in the extra `bench`, which tests do not need")
    path = tmp_path / "frames.svg"
    options = ["--frames", "5", "--unpaced", "--json", "--plot", str(path)]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 0
    assert path.read_bytes().startswith(b"<?xml")


def test_nothing_to_compare_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--frames", "1", "--budget-ms", "0", "--unpaced", "--check", "--json"]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 1
    out, error = capsys.readouterr()
    facts = json.loads(out)
    assert (facts["lines"], facts["differing_lines"]) == (0, None)
    assert error.startswith("no line was finished, so that nothing was compared")


def test_what_the_library_refuses_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLM_CACHE_DIR", str(tmp_path))
    missing = tmp_path / "there is none.sslm"
    other = tmp_path / "other.sslm"
    other.write_bytes(b"no model")
    for model, code in (("no-such-model", 4), (missing, 3), (other, 3)):
        assert frame_loop.main(["-m", str(model)]) == code
        out, error = capsys.readouterr()
        assert out == ""
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert frame_loop.main(["-m", str(model), "--json"]) == code
        assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == code


def test_a_picture_that_cannot_be_drawn_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*arguments: object, **options: object) -> None:
        pytest.fail("a model was opened")

    monkeypatch.setattr("sslm.load", load)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        assert frame_loop.main(["--plot", str(tmp_path / "frames.svg")]) == 4
    assert capsys.readouterr().err.startswith("error: pictures are drawn by matplotlib")
    monkeypatch.setattr("sslm.bench.plot.require_plot_library", lambda: None)
    assert frame_loop.main(["--plot", str(tmp_path / "nowhere" / "frames.svg")]) == 4
    assert "No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--frames", "0"],
        ["--lines", "0"],
        ["--frames", "9", "--lines", "9"],
        ["--plot", "frames.txt"],
        ["--characters", "5"],
        ["--threads", "0"],
        ["--threads", "257"],
        *(["--budget-ms", text] for text in ("-1", "nan", "inf", "1e9")),
    ],
)
def test_bad_options(options: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        frame_loop.main(options)
    assert caught.value.code == 2


def test_help_has_an_example() -> None:
    path = Path(frame_loop.__file__)
    found = subprocess.run(
        [sys.executable, str(path), "--help"], capture_output=True, check=True, text=True
    )
    assert "Example: python examples/frame_loop.py -m smollm2-135m" in found.stdout
