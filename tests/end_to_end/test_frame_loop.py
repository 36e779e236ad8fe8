"""The example runs, and its characters say what they would say without any slices."""

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import frame_loop

from tests.converted import stories_artifact

FRAMES = 60


@pytest.fixture(autouse=True)
def _thaw() -> Iterator[None]:
    """Let the collector see again what the example takes out of its sight."""
    yield
    gc.unfreeze()


def test_the_figures_and_the_same_lines(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--frames", str(FRAMES), "--budget-ms", "2", "--unpaced", "--check", "--json"]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["frames"], facts["budget_ms"], facts["differing_lines"]) == (FRAMES, 2.0, 0)
    assert facts["lines"] > len(frame_loop.NAMES)
    assert facts["tokens"] > facts["lines"]
    assert set(facts["ms"]) == {"thread CPU time", "wall time"}


def test_what_a_person_reads(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--frames", str(FRAMES), "--unpaced", "--characters", "2"]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 0
    *lines, facts, _, cpu, wall = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(("Ada: ", "Bram: "))
    assert facts.startswith(f"{FRAMES} frames, 4.0 ms of each for the model; ")
    assert cpu.startswith("thread CPU time ")
    assert wall.startswith("wall time ")


def test_a_line_that_differs_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(frame_loop, "differing_lines", lambda model, scene: 1)
    options = ["--frames", "2", "--unpaced", "--check"]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 1
    assert capsys.readouterr().out.endswith("lines that differ from the unsliced answer: 1\n")


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="it is in the extra `bench`, which tests do not need")
    path = tmp_path / "frames.svg"
    options = ["--frames", "5", "--unpaced", "--json", "--plot", str(path)]
    assert frame_loop.main(["-m", str(stories_artifact()), *options]) == 0
    assert path.read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    "options", [["--frames", "0"], ["--plot", "frames.txt"], ["--characters", "5"]]
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
