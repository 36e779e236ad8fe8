"""``sslm replay`` and ``--record``: what they print, and their exit codes."""

import io
import os
import shutil
import signal
import sys
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from sslm.catalog.cache import Cache
from sslm.cli.app import run
from sslm.evidence.records import read_record
from sslm.formats.records.writer import encode_record
from tests.unit.cli.commands import Commands, start

PROMPT = "Once upon a time"
COUNT = 6


@pytest.fixture
def record(sslm_command: Commands, stories: Path, tmp_path: Path) -> Path:
    """A record of a short answer."""
    path = tmp_path / "run.sslmr"
    sslm_command.text(
        *("generate", PROMPT, "-m", stories, "--max-tokens", COUNT, "--record", path, "-t", 2)
    )
    return path


def changed(path: Path, index: int) -> Path:
    """Write the record again with another token, sealed."""
    saved = read_record(path).saved
    ids = array("i", saved.token_ids)
    ids[index] ^= 1
    other = path.with_name("changed.sslmr")
    other.write_bytes(encode_record(replace(saved, token_ids=ids)))
    return other


@pytest.mark.parametrize(
    "way",
    [
        (),
        ("--backend", "reference"),
        ("--tier", "scalar"),
        ("--slice-units", "1"),
        ("--threads", "2", "--slice-units", "3"),
    ],
    ids=" ".join,
)
def test_a_record_replays_identically(
    sslm_command: Commands, stories: Path, record: Path, way: tuple[str, ...]
) -> None:
    text = sslm_command.text("replay", record, "-m", stories, *way)
    assert text.startswith("identical\n  model_id  ")
    facts = sslm_command.json("replay", record, "-m", stories, *way)
    assert (facts["identical"], facts["first_difference"]) == (True, None)
    assert facts["digest"] == facts["recorded_digest"] == read_record(record).digest


def test_a_changed_token_is_exit_1_and_is_named(
    sslm_command: Commands, stories: Path, record: Path
) -> None:
    other = changed(record, 3)
    facts = sslm_command.json("replay", other, "-m", stories, code=1)
    found = facts["first_difference"]
    sound = read_record(record).token_ids
    assert (facts["identical"], found["token_index"], found["segment"]) == (False, 3, "select")
    assert (found["found"], found["expected"]) == (sound[3], sound[3] ^ 1)
    text = sslm_command.text("replay", other, "-m", stories, code=1)
    expected = f"DIFFERENT: token 4, segment select (found token id {sound[3]}, recorded token id "
    assert text.startswith(expected)


def test_the_model_is_found_in_the_cache_by_what_it_is(
    sslm_command: Commands, stories: Path, record: Path, tmp_path: Path
) -> None:
    assert sslm_command.error("replay", record, code=3) == "RecordModelMissingError"
    cache = Cache(tmp_path / "cache")
    path = cache.path_of("tiny", "0" * 16)
    path.parent.mkdir(parents=True)
    shutil.copy(stories, path)
    path.with_name(f"other-{'1' * 16}.sslm").write_bytes(b"no model")
    assert sslm_command.json("replay", record)["identical"] is True
    assert sslm_command.json("replay", record, "-m", "tiny")["identical"] is True
    # Of the next answer, too.
    assert sslm_command.text("replay", record, "--from", 3)


def test_another_model_is_refused(sslm_command: Commands, talker: Path, record: Path) -> None:
    assert sslm_command.error("replay", record, "-m", talker, code=3) == "RecordModelError"
    error = sslm_command.error("replay", record, "-m", talker, "--from", 2, code=3)
    assert error == "RecordModelError"


def test_what_is_no_record_is_refused(
    sslm_command: Commands, stories: Path, record: Path, tmp_path: Path
) -> None:
    assert sslm_command.error("replay", stories, code=3) == "NotARecordError"
    assert sslm_command.error("replay", tmp_path / "absent", code=3) == "UnreadableFileError"
    assert sslm_command.error("replay", tmp_path, code=3) == "UnreadableFileError"
    record.write_bytes(record.read_bytes()[:-1])
    assert sslm_command.error("replay", record, code=3) == "RecordSizeError"


@pytest.mark.parametrize("kept", [0, 1, COUNT - 1])
def test_a_branch_goes_on_as_the_record_does(
    sslm_command: Commands, stories: Path, record: Path, kept: int
) -> None:
    whole = sslm_command.text("generate", PROMPT, "-m", stories, "--max-tokens", COUNT)
    assert sslm_command.text("replay", record, "-m", stories, "--from", kept) == whole
    facts = sslm_command.json("replay", record, "-m", stories, "--from", kept)
    assert facts["kept_text"] + facts["text"] == whole
    assert facts["token_ids"] == list(read_record(record).token_ids[kept:])


def test_a_branch_goes_on_otherwise_and_is_recorded(
    sslm_command: Commands, stories: Path, record: Path, tmp_path: Path
) -> None:
    branch = tmp_path / "branch.sslmr"
    arguments = ("replay", record, "-m", stories, "--from", 2, "--max-tokens", 9)
    facts = sslm_command.json(*arguments, "--stop", ".", "--record", branch)
    found, origin = read_record(branch), read_record(record)
    assert found.prompt_token_ids == (*origin.prompt_token_ids, *origin.token_ids[:2])
    assert (found.max_tokens, found.stop) == (9, (".",))
    assert list(found.token_ids) == facts["token_ids"]
    assert sslm_command.json("replay", branch, "-m", stories)["identical"] is True


def test_a_sampled_answer_is_recorded_and_branched(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.sslmr"
    arguments = ("generate", PROMPT, "-m", stories, "--max-tokens", COUNT, "--record", path)
    drawn = sslm_command.json(*arguments, "--temperature", "2.5", "--seed", 5)
    assert sslm_command.json("replay", path, "-m", stories, "--tier", "scalar")["identical"] is True
    branch = ("replay", path, "-m", stories, "--from", 1)
    assert sslm_command.json(*branch)["token_ids"] == drawn["token_ids"][1:]
    other = sslm_command.json(*branch, "--seed", 6, "--max-tokens", 20)
    assert (other["seed"], other["choosing"]["temperature"]) == (6, "2.5")
    assert other["token_ids"][: COUNT - 1] != drawn["token_ids"][1:]


def test_options_that_mean_nothing_are_refused(
    sslm_command: Commands, stories: Path, record: Path
) -> None:
    extra: tuple[object, ...]
    for extra in (("--max-tokens", 3), ("--stop", "x"), ("--seed", 1), ("--record-segments",)):
        sslm_command.text("replay", record, "-m", stories, *extra, code=2)
    branch = ("replay", record, "-m", stories, "--from")
    for extra in ((COUNT + 1,), (-1,), ("x",), (1, "--slice-units", 1)):
        sslm_command.text(*branch, *extra, code=2)


def test_digests_of_segments_may_be_asked_for(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.sslmr"
    sslm_command.text(
        *("generate", PROMPT, "-m", stories, "--max-tokens", 2),
        *("--record", path, "--record-segments"),
    )
    assert read_record(path).has_segments
    assert sslm_command.json("replay", path, "-m", stories)["identical"] is True


@pytest.mark.parametrize(
    "options",
    [("--record-segments",), ("--n", 2, "--record-segments"), ("--n", 2, "--record", "a.sslmr")],
    ids=str,
)
def test_records_that_cannot_be_are_refused_before_a_model_is_opened(
    sslm_command: Commands, record: Path, stories: Path, options: tuple[object, ...]
) -> None:
    named = str(options[-1] if len(options) != 4 else "--record")
    found = sslm_command.json("generate", PROMPT, "-m", "no-such-model", *options, code=2)
    assert named in found["error"]["message"]
    branch = ("replay", record, "-m", stories, "--from", 1, "--record-segments")
    assert "--record-segments" in sslm_command.json(*branch, code=2)["error"]["message"]


def test_a_chat_records_each_answer(
    sslm_command: Commands,
    talker: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "records"
    for first in (1, 4):
        typed = io.BytesIO(b"Hello\nBye\n/edit Hi\n")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(typed))
        assert run(["chat", "-m", str(talker), "--max-tokens", "3", "--record", str(folder)]) == 0
        error = capsys.readouterr().err
        names = sorted(path.name for path in folder.iterdir())
        assert names == [f"{index:04}.sslmr" for index in range(1, first + 3)]
        digests = [line.split()[1] for line in error.splitlines() if line.startswith("digest ")]
        recorded = [read_record(folder / f"{first + at:04}.sslmr").digest for at in range(3)]
        assert recorded == digests
    assert sslm_command.json("replay", folder / "0002.sslmr", "-m", talker)["identical"] is True
    file = tmp_path / "file"
    file.write_bytes(b"")
    refused = run(["chat", "-m", str(talker), "--record", str(file)])
    assert (refused, "it is no folder; name one" in capsys.readouterr().err) == (4, True)


def test_an_interrupted_request_leaves_no_record(stories: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sslmr"
    process = start(
        *("generate", PROMPT, "-m", stories, "--max-tokens", 400, "--record", path, "-t", 1)
    )
    assert process.stdout is not None
    process.stdout.read(1)
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=240)
    assert process.returncode in {130, 0}, error
    assert [entry.name for entry in tmp_path.iterdir()] in ([], ["run.sslmr"])
    assert process.returncode == 0 or not path.exists()


def test_a_record_of_a_schema_is_replayed_with_it(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    lamp, path, model = tmp_path / "lamp.json", tmp_path / "run.sslmr", tmp_path / "with.sslm"
    lamp.write_text('{"enum": ["on", "off"]}')
    asked = ("generate", PROMPT, "--max-tokens", 12, "--schema")
    sslm_command.text(*asked, lamp, "-m", stories, "--record", path)
    replay = ("replay", path, "-m", stories)
    assert sslm_command.error(*replay, code=4) == "RecordSchemaMissingError"
    assert sslm_command.json(*replay, "--schema", lamp)["identical"]
    lamp.write_text('{"enum": ["on", "out"]}')
    assert sslm_command.error(*replay, "--schema", lamp, code=4) == "RecordSchemaError"
    assert sslm_command.error(*replay, "--finish", "fit", code=2) == "UsageError"
    # By its name in the model's file, and a token that it would not have allowed.
    sslm_command.text("schema", "add", stories, lamp, "-o", model)
    sslm_command.text(*asked, "lamp", "-m", model, "--record", path)
    assert sslm_command.json("replay", path, "-m", model)["identical"]
    text = sslm_command.text("replay", changed(path, 1), "-m", model, code=1)
    assert text.startswith("DIFFERENT: token 2, segment select (found token id ")
    assert "; the schema does not allow it there\n" in text
    answer = sslm_command.json("replay", path, "-m", model, "--from", 0)
    assert answer["text"] in ('"on"', '"out"')
    assert (
        sslm_command.error("replay", path, "-m", model, "--from", 2, code=4) == "OptionRangeError"
    )
