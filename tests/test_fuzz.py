"""Fuzzing: its seeds are current and do no harm, and what does harm is found."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import execution
from fuzz.campaign import Places, Summary, replay, run_campaign, sizes_bytes
from fuzz.choices import Choices
from fuzz.execution import PeakMemory, execute
from fuzz.findings import KINDS, save_finding, saved_findings
from fuzz.line_coverage import replay_lines
from fuzz.make_seeds import MAKERS
from fuzz.sections import edited_json
from fuzz.target import SEEDS_FOLDER, Outcomes
from fuzz.targets import NAMES, load_target

from sslm.formats.sslm.canonical_json import decode_json
from sslm.text.templates import date as template_date

ROOT = Path(__file__).parents[1]
SEEDS_SIZE_BYTES_MAX = 300_000


@pytest.fixture(autouse=True)
def _how_long_is_for_campaigns_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "SECONDS_MAX", 100.0)


each_target = pytest.mark.parametrize("name", NAMES)


def test_every_target_has_seeds() -> None:
    assert set(NAMES) == set(MAKERS) == {path.name for path in SEEDS_FOLDER.iterdir()}
    files = [path for path in SEEDS_FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < SEEDS_SIZE_BYTES_MAX


@each_target
def test_seeds_are_those_that_are_made(name: str) -> None:
    found = {path.stem: path.read_bytes() for path in (SEEDS_FOLDER / name).iterdir()}
    assert found == dict(MAKERS[name]())


@each_target
def test_seeds_do_no_harm(name: str) -> None:
    target, outcomes, memory = load_target(name), Outcomes(), PeakMemory()
    execute(target, target.seeds()[0], outcomes, memory)  # Imports are charged to nobody.
    findings = [
        finding
        for seed in target.seeds()
        for finding in execute(target, seed, outcomes, memory).findings
    ]
    assert findings == []
    assert len(outcomes) > 3
    assert [one for one in target.reaches if not outcomes[one]] == []


def test_files_that_a_worker_removes_meanwhile_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"12")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")  # Listed, and not found when looked at.
    assert [*sizes_bytes(tmp_path)] == [(tmp_path / "there", 2)]


@each_target
def test_seeds_are_small_enough_to_be_mutated(name: str) -> None:
    target = load_target(name)
    assert max(map(len, target.seeds())) <= target.size_bytes_max


# The others are mutated by libFuzzer alone.
@pytest.mark.parametrize("name", [name for name in NAMES if load_target(name).mutate])
def test_a_targets_mutations_do_no_harm(name: str) -> None:
    """Whatever the seed, a mutation is an input of its target, and is within its size."""
    target, outcomes, memory = load_target(name), Outcomes(), PeakMemory()
    assert target.mutate is not None

    def reversed_bytes(data: bytes, size_bytes_max: int) -> bytes:
        return data[::-1][:size_bytes_max]

    for seed in range(60):
        for data in (target.seeds()[seed % len(target.seeds())], b"", b"\0"):
            mutated = target.mutate(data, target.size_bytes_max, seed, reversed_bytes)
            assert len(mutated) <= target.size_bytes_max
            assert execute(target, mutated, outcomes, memory).findings == ()


def test_edited_json_stays_canonical() -> None:
    sound = b'{"a":[1,{"b":"c"}],"d":null}'
    edited = {edited_json(sound, Choices(bytes([seed, *range(seed, 60)]))) for seed in range(50)}
    assert len(edited) > 20
    for data in edited:
        decode_json(memoryview(data), "edited")


DEFECTS = {
    b"ex": "exception",
    b"pa": "exception",
    b"br": "broken",
    b"sl": "slow",
    b"la": "large",
}


@pytest.mark.parametrize(("data", "kind"), DEFECTS.items())
def test_a_defect_is_a_finding_of_its_kind(
    data: bytes, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "slow":
        monkeypatch.setattr(execution, "SECONDS_MAX", 0.2)
    toy = load_target("tests.fuzz_toy")
    findings = execute(toy, data, Outcomes(), PeakMemory()).findings
    assert [finding.kind for finding in findings] == [kind]
    assert save_finding(tmp_path, findings[0], data)
    assert not save_finding(tmp_path, findings[0], b"another input of the same cause")
    assert [path.read_bytes() for path in saved_findings(tmp_path)] == [data]
    story = saved_findings(tmp_path)[0].with_suffix(".txt").read_text(encoding="utf-8")
    assert story.startswith(KINDS[kind])


def test_replay_sees_a_process_die(tmp_path: Path) -> None:
    paths = [tmp_path / "dies", tmp_path / "lives"]
    paths[0].write_bytes(b"cr")
    paths[1].write_bytes(b"no")
    found = replay(load_target("tests.fuzz_toy"), paths)
    assert [[one["kind"] for one in facts["findings"]] for facts in found] == [["crash"], []]


def test_replay_is_a_command() -> None:
    seeds = sorted(str(path) for path in (SEEDS_FOLDER / "artifact_json").iterdir())
    command = [sys.executable, "-m", "fuzz", "artifact_json", "--json", "--replay", *seeds[:1]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert json.loads(done.stdout)[0]["outcomes"] == {"config read": 1}


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_a_search_goes_on_after_each_defect(tmp_path: Path) -> None:
    """Of a corpus with a crash in it, the worker that dies is replaced and finds the rest."""
    places = Places(corpus=tmp_path / "corpus", findings=tmp_path / "findings")
    toy = dataclasses.replace(load_target("tests.fuzz_toy"), reaches=("what nothing reaches",))
    places.corpus.mkdir()
    for word in ("ex", "br", "cr"):
        (places.corpus / word).write_bytes(word.encode())

    def stop_when_all_are_found(summary: Summary) -> None:
        if {Path(path).parent.name for path in summary.findings} >= {
            "exception",
            "broken",
            "crash",
        }:
            raise KeyboardInterrupt

    # It stops as soon as all are found: the time is for a machine that does much else.
    summary = run_campaign(toy, places, seconds=300, jobs=1, on_progress=stop_when_all_are_found)
    assert summary.seconds < 300
    assert summary.executions >= 3
    assert "what nothing reaches" in summary.missed
    assert not (places.corpus / "cr").exists()


def test_lines_that_are_missed_are_named() -> None:
    """Of a date's layout with an unknown directive, all but what follows the error is reached."""
    target = load_target("options")
    only_dates = dataclasses.replace(target, modules=("sslm.text.templates.date",))
    refused, accepted = (SEEDS_FOLDER / "options" / f"parser_5_{n}.bin" for n in (1, 0))
    found, done = replay_lines(only_dates, [accepted.read_bytes()], seconds_max=60.0)
    lines = Path(str(template_date.__file__)).read_text(encoding="utf-8").splitlines()
    missed = [lines[int(span.split("-")[0]) - 1].strip() for span in found[0].missed]
    assert done == 1
    assert len(missed) == 1
    assert missed[0].startswith("supported = ")
    both = [accepted.read_bytes(), refused.read_bytes()]
    assert replay_lines(only_dates, both, seconds_max=60.0)[0][0].missed == []
