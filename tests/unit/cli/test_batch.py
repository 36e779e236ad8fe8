"""``sslm batch``: one file of answers, whatever happens while it is written."""

import hashlib
import json
import os
import random
import resource
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sslm.cli.app import run
from sslm.engine.model import Model
from sslm.errors.batches import BatchInputChangedError
from sslm.runtime.sequences.options import SequenceOptions
from sslm.sampling.seeds import answer_seed, row_seed
from sslm.serving.batch_input import BatchInput
from sslm.serving.batch_job import BatchJob
from sslm.serving.batch_lines import JobOptions
from tests.unit.cli.commands import Commands, start

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"


def line(row_id: str, url: str = TEXT, method: str = "POST", **body: Any) -> str:
    fields = {"custom_id": row_id, "method": method, "url": url, "body": body}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def rows(count: int, seed: int = 1) -> list[str]:
    """Return rows of many lengths, every fifth of which is refused."""
    order = random.Random(seed)
    found = []
    for number in range(count):
        prompt = [1, *(order.randrange(3, 500) for _ in range(order.choice([1, 9, 70])))]
        extra = {"echo": True} if number % 5 == 4 else {"temperature": number % 3}
        found.append(
            line(f"row {number}", prompt=prompt, max_tokens=order.randrange(1, 30), **extra)
        )
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(rows(30)), encoding="utf-8")
    return path


def answered(path: Path) -> list[dict[str, Any]]:
    return [json.loads(one) for one in path.read_bytes().splitlines()]


def test_answers_are_those_of_lone_calls(
    sslm_command: Commands, talker: Path, tmp_path: Path
) -> None:
    messages = [{"role": "user", "content": "Hé <|im_end|>"}]
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text(
        line("ä\n", prompt="Once upon a time", max_tokens=20, stop=["e"], model=talker.stem)
        + line("b", prompt=[1, 300, 4], max_tokens=7)
        + line("c", CHAT, messages=messages, max_completion_tokens=9)
        + line("d", prompt="Lily")
        + line("e", prompt="Lily", temperature=0.8, top_p=0.95, seed=11)
        + line("f", CHAT, messages=messages, temperature=1, logit_bias={"300": -2.5}),
        encoding="utf-8",
    )
    common = ("-m", talker, "--max-tokens", 5)
    facts = sslm_command.json("batch", source, "-o", out, "--seed", 7, *common)
    with Model(talker) as model:
        lone = [
            model.generate("Once upon a time", max_tokens=20, stop=["e"]),
            model.generate([1, 300, 4], max_tokens=7),
            model.chat(messages, max_tokens=9),
            model.generate("Lily", max_tokens=5, seed=row_seed(7, "d")),
            model.generate("Lily", max_tokens=5, temperature=0.8, top_p=0.95, seed=11),
            model.chat(
                messages,
                max_tokens=5,
                temperature=1,
                logit_bias={300: -2.5},
                seed=row_seed(7, "f"),
            ),
        ]
        many = model.generate_many(["Lily"], max_tokens=5, seed=7, row_ids=["d"])
        model_id = model.model_id
    assert many == [lone[3]]
    texts = []
    for expected, found in zip(lone, answered(out), strict=True):
        body = found["response"]["body"]
        (choice,) = body["choices"]
        texts.append(choice["text"] if "text" in choice else choice["message"]["content"])
        assert texts[-1] == expected.text
        assert choice["finish_reason"] == expected.finish_reason
        told = choice["sslm"]
        assert (told["digest"], told["token_ids"]) == (expected.digest, expected.token_ids)
        assert told["stop_reason"] == expected.stop_reason
        assert found["sslm"]["digest"] == expected.digest
        assert found["sslm"]["model_id"] == model_id
        assert body["usage"]["prompt_tokens"] == expected.usage.prompt_tokens
        assert body["usage"]["completion_tokens"] == expected.usage.completion_tokens
        assert (found["response"]["status_code"], found["error"]) == (200, None)
    objects = [found["response"]["body"]["object"] for found in answered(out)]
    kinds = {"t": "text_completion", "c": "chat.completion"}
    assert objects == [kinds[kind] for kind in "ttcttc"]
    assert [found["custom_id"] for found in answered(out)] == ["ä\n", *"bcdef"]
    told = [found["response"]["body"]["choices"][0]["sslm"] for found in answered(out)]
    assert told[4]["choosing"] == {"temperature": "0.8", "top_p": "0.95", "seed": 11}
    assert told[5]["choosing"]["logit_bias"] == {"300": "-2.5"}
    assert [one["seed"] for one in told[:4]] == [row_seed(7, name) for name in ("ä\n", *"bcd")]
    stdout = sslm_command.text("generate", "Lily", *common)
    assert stdout == texts[3]
    assert (facts["rows"], facts["answered"], facts["refused"]) == (6, 6, 0)
    assert facts["completion_tokens"] == sum(len(one.token_ids) for one in lone)


def test_log_probabilities_are_told(sslm_command: Commands, talker: Path, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text(
        line("a", prompt="Once", max_tokens=4, logprobs=3)
        + line("b", CHAT, messages=messages, max_tokens=4, logprobs=True, top_logprobs=2)
        + line("c", prompt="Once", max_tokens=4, logprobs=0)
    )
    sslm_command.text("batch", source, "-o", out, "-m", talker)
    with Model(talker) as model:
        text = model.generate("Once", max_tokens=4, logprobs=3)
        chat = model.chat(messages, max_tokens=4, logprobs=2)
        pieces = [model.tokenizer.token_bytes(one).decode() for one in text.token_ids]
    assert text.logprobs is not None
    assert chat.logprobs is not None
    first, second, third = (found["response"]["body"]["choices"][0] for found in answered(out))
    assert first["sslm"]["logprobs_q20"] == [one.q20 for one in text.logprobs]
    assert first["logprobs"]["tokens"] == pieces
    told = [str(number) for number in first["logprobs"]["token_logprobs"]]
    assert told == [str(float(one.decimal)) for one in text.logprobs]
    assert [len(one) for one in first["logprobs"]["top_logprobs"]] == [3] * 4
    # Greedy: the likeliest one is the chosen one.
    assert [next(reversed(one)) for one in first["logprobs"]["top_logprobs"]] == pieces
    assert second["sslm"]["logprobs_q20"] == [one.q20 for one in chat.logprobs]
    for found, one in zip(second["logprobs"]["content"], chat.logprobs, strict=True):
        assert Decimal(repr(found["logprob"])) == one.decimal
        assert bytes(found["bytes"]).decode() == found["token"]
        tops = [Decimal(repr(likely["logprob"])) for likely in found["top_logprobs"]]
        assert tops == [likely.decimal for likely in one.top]
    assert third["logprobs"]["top_logprobs"] == [{}] * 4
    assert third["text"] == first["text"]


def test_several_answers_of_a_row_are_lone_runs(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    options: dict[str, Any] = {"max_tokens": 12, "temperature": 1.5}
    source.write_text(line("a", prompt="Once", n=8, **options) + line("b", prompt="The", n=2))
    sslm_command.text("batch", source, "-o", out, "-m", stories, "--batch-size", 3)
    first, second = (found["response"]["body"] for found in answered(out))
    seeds = [choice["sslm"]["seed"] for choice in first["choices"]]
    assert seeds == [answer_seed(row_seed(0, "a"), index) for index in range(8)]
    with Model(stories) as model:
        for choice in first["choices"]:
            told = choice["sslm"]
            expected = model.generate("Once", seed=told["seed"], **options)
            assert (choice["text"], told["digest"]) == (expected.text, expected.digest)
    assert first["usage"]["completion_tokens"] == 96
    assert [choice["index"] for choice in second["choices"]] == [0, 1]


def test_the_file_is_the_same_however_it_is_made(
    sslm_command: Commands, stories: Path, source: Path, tmp_path: Path
) -> None:
    files = []
    for number, options in enumerate(
        (
            ("-t", 1, "--batch-size", 1),
            ("-t", 2, "--batch-size", 64),
            ("--tier", "scalar", "-t", 1),
            ("--memory-bytes", "4M", "-t", 1),
        )
    ):
        out = tmp_path / str(number)
        facts = sslm_command.json("batch", source, "-o", out, "-m", stories, *options, code=4)
        files.append(out.read_bytes())
        assert facts["sha256"] == hashlib.sha256(files[-1]).hexdigest()
        assert (facts["rows"], facts["answered"], facts["refused"]) == (30, 24, 6)
    assert len(set(files)) == 1


def test_a_row_for_another_model_stops_the_job_which_goes_on_where_any_name_does(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    source, out, whole = (tmp_path / name for name in ("in", "out", "whole"))
    fine = [line(str(n), prompt="Once", max_tokens=2) for n in range(9)]
    source.write_text("".join(fine) + line("other", prompt="Once", max_tokens=2, model="gpt-4o"))
    job = ("batch", source, "-m", stories, "--batch-size", 2)
    failed = sslm_command.json(*job, "-o", out, code=3)["error"]
    assert failed["type"] == "BatchModelError"
    assert "--any-model" in failed["message"]
    assert 0 < lines_of(out) < 10
    sslm_command.json(*job, "-o", out, "--any-model")
    sslm_command.json(*job, "-o", whole, "--any-model")
    assert out.read_bytes() == whole.read_bytes()
    assert answered(out)[-1]["response"]["body"]["model"] == "gpt-4o"


def test_what_clients_add_without_a_value_is_as_if_it_were_not_there(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    plain, added, first, second = (tmp_path / name for name in ("a", "b", "c", "d"))
    plain.write_text(line("1", prompt="Once", max_tokens=3))
    nothing: dict[str, Any] = {
        "tools": None,
        "functions": [],
        "suffix": "",
        "audio": {},
        "stop": None,
    }
    aside: dict[str, Any] = {
        "user": "x",
        "metadata": {"a": "b"},
        "store": True,
        "service_tier": "auto",
    }
    text = line("1", prompt="Once", max_tokens=3, **nothing, **aside)
    added.write_bytes(b"\xef\xbb\xbf" + text.encode())
    sslm_command.json("batch", plain, "-o", first, "-m", stories)
    sslm_command.json("batch", added, "-o", second, "-m", stories)
    bodies = [answered(path)[0]["response"]["body"] for path in (first, second)]
    assert bodies[0]["choices"] == bodies[1]["choices"]
    refused: dict[str, Any] = {"tools": [{}], "echo": True, "suffix": "x", "best_of": 1}
    for name, value in refused.items():
        added.write_text(line("1", prompt="Once", max_tokens=3, **{name: value}))
        assert sslm_command.json("batch", added, "-o", tmp_path / name, "-m", stories, code=4)
        error = answered(tmp_path / name)[0]["response"]["body"]["error"]
        assert (error["code"], f"body.{name}" in error["message"]) == ("BatchFieldError", True)


def test_several_prompts_in_one_line_are_called_so(
    sslm_command: Commands, stories: Path, tmp_path: Path
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text(line("1", prompt=["a", "b"]) + line("2", prompt=[[1], [2]]))
    sslm_command.json("batch", source, "-o", out, "-m", stories, code=4)
    for found in answered(out):
        message = found["response"]["body"]["error"]["message"]
        assert message == (
            "the field 'body.prompt' is a list of 2 prompts, "
            "expected one: give each a line of its own"
        )


def test_rows_are_refused_one_by_one(sslm_command: Commands, stories: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    bad = {
        "BatchFieldError": line("1", prompt="a", tools=[{"type": "function"}]),
        "BatchValueError": line("2", method="GET", prompt="a"),
        "ContextLengthError": line("4", prompt=[1] * 600),
        "TokenIdRangeError": line("5", prompt=[1, 512]),
        "TokenIdTypeError": line("6", prompt=[True]),
        "TextTypeError": line("7", prompt={"a": 1}),
        "NoChatTemplateError": line("8", CHAT, messages=[{"role": "user", "content": "a"}]),
        "OptionRangeError": line("9", prompt="a", max_tokens=0),
        "EmptyPromptError": line("10", prompt=[]),
    }
    good = line("good", prompt="Once", max_tokens=3)
    source.write_text("".join(bad.values()) + good)
    facts = sslm_command.json("batch", source, "-o", out, "-m", stories, code=4)
    assert (facts["answered"], facts["refused"]) == (1, len(bad))
    *refused, last = answered(out)
    assert last["response"]["status_code"] == 200
    for kind, found in zip(bad, refused, strict=True):
        assert found["response"]["status_code"] == 400
        error = found["response"]["body"]["error"]
        assert error["code"] == kind, error
        assert error["message"]
        assert set(found["sslm"]) == {"model_id", "arithmetic_version", "job", "request"}


def test_a_job_goes_on_only_with_its_own_file(
    sslm_command: Commands, stories: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    sslm_command.text("batch", source, "-o", out, "-m", stories, code=4)
    whole = out.read_bytes()
    out.write_bytes(whole[: len(whole) // 2])
    cut = out.read_bytes()
    for options in (
        ("--seed", 1),
        ("--max-tokens", 9),
        ("--context-tokens", 300),
        ("--date", "2026-01-01"),
    ):
        error = sslm_command.error("batch", source, "-o", out, "-m", stories, *options, code=3)
        assert error == "BatchOutputMismatchError"
        assert out.read_bytes() == cut
    other = tmp_path / "other"
    other.write_text("".join(rows(30, seed=2)))
    assert sslm_command.error("batch", other, "-o", out, "-m", stories, code=3) == (
        "BatchOutputMismatchError"
    )
    copied = tmp_path / "copied"
    copied.write_bytes(source.read_bytes())
    assert sslm_command.error("batch", source, "-o", copied, "-m", stories, code=3) == (
        "BatchOutputMismatchError"
    )
    assert out.read_bytes() == cut
    facts = sslm_command.json("batch", source, "-o", out, "-m", stories, code=4)
    assert 0 < facts["resumed"] < 30
    assert out.read_bytes() == whole


def test_usage_errors(sslm_command: Commands, stories: Path, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for arguments in (
        ("-", "-o", out),
        (source, "-o", "-"),
        (source, "-o", source),
        (source,),
        (source, "-o", out, "--batch-size", 0),
        (source, "-o", out, "--batch-size", 65),
        (source, "-o", out, "--seed", 1 << 64),
        (source, "-o", out, "--max-tokens", 0),
    ):
        sslm_command.text("batch", *arguments, "-m", stories, code=2)
    assert not out.exists()
    bad = tmp_path / "bad"
    bad.write_text(line("a", prompt="a") * 2)
    assert sslm_command.error("batch", bad, "-o", out, "-m", stories, code=3) == (
        "BatchRowIdTwiceError"
    )
    assert not out.exists()


def test_what_depends_on_the_machine_stops_the_job(
    sslm_command: Commands, stories: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    rest = ("-m", stories, "-t", 1)
    assert sslm_command.error("batch", source, "-o", out, *rest, "--deadline-s", 0, code=5) == (
        "DeadlineExceededError"
    )
    with source.open("a") as file:
        file.write(line("wide", prompt=[1] * 400, max_tokens=100))
    with Model(stories) as model:
        sequence = model._runner.sequence_sizes_bytes(SequenceOptions(context_tokens=128))
        small = ("--memory-bytes", model.footprint(0).total + sum(sequence) + 4096)
    assert sslm_command.error("batch", source, "-o", out, *rest, *small, code=5) == (
        "MemoryBudgetError"
    )
    assert len(answered(out)) == 30
    facts = sslm_command.json("batch", source, "-o", out, *rest, code=4)
    assert (facts["resumed"], facts["rows"]) == (30, 31)


def test_a_full_disk_stops_the_job(
    sslm_command: Commands, stories: Path, source: Path, tmp_path: Path
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    rest = ("-m", stories, "-t", 1)
    sslm_command.text("batch", source, "-o", whole, *rest, code=4)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A write beyond the limit fails in its middle, as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (whole.stat().st_size // 2, before[1]))
    try:
        found = sslm_command.json("batch", source, "-o", out, *rest, code=5)["error"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found["type"] == "DiskFullError"
    # The lines that were written are there: a message must not say that nothing was left.
    assert found["message"].endswith("free some space and try again")
    assert out.read_bytes().endswith(b"\n")
    assert whole.read_bytes().startswith(out.read_bytes())
    sslm_command.text("batch", source, "-o", out, *rest, code=4)
    assert out.read_bytes() == whole.read_bytes()


def test_a_file_that_changes_meanwhile_stops_the_job(
    stories: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with Model(stories) as model:
        requests = BatchInput(source)
        options = JobOptions(
            seed=0,
            max_tokens=5,
            context_tokens=model.context_tokens,
            date=None,
            model="stories",
            is_any_model=False,
        )
        source.write_text("".join([*rows(20), *rows(10, seed=5)]))
        with pytest.raises(BatchInputChangedError):
            BatchJob(model, requests, options).run(out)
        # What was read before is answered as it was, unless it was still in the making.
        assert lines_of(out) < 30
        source.write_text("".join(rows(30)))
        told: list[tuple[int, int]] = []
        summary = BatchJob(model, requests, options).run(
            out, on_progress=lambda done, total: told.append((done, total))
        )
        assert (summary.answered, summary.refused) == (24, 6)
        assert told == [(done, 30) for done in range(summary.resumed, 31)]


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


SIGNALLED = """
import os, signal, sys
from sslm.cli import main
from sslm.serving.batch_output import BatchOutput

whole = BatchOutput.append

def append(output, line, **facts):
    if output.written.rows == {rows}:
        if "{is_torn}" == "True":
            os.write(output._file, line[:9])
        os.kill(os.getpid(), signal.{name})
    whole(output, line, **facts)

BatchOutput.append = append
main()
"""
"""A job that gets a signal before it writes a line: whoever sends it may come too late."""


def test_a_killed_job_goes_on(stories: Path, tmp_path: Path) -> None:
    source, out, whole = (tmp_path / name for name in ("in", "out", "whole"))
    source.write_text("".join(rows(200)))
    common = ["-m", str(stories), "-t", "1", "-q"]
    assert run(["batch", str(source), "-o", str(whole), *common]) == 4
    order = random.Random(3)
    for is_torn in (False, True):
        count = lines_of(out) + order.randrange(1, 30)
        program = SIGNALLED.format(rows=count, is_torn=is_torn, name="SIGKILL")
        process = start("batch", source, "-o", out, *common, program=program)
        process.communicate(timeout=240)
        assert process.returncode == -signal.SIGKILL
        assert lines_of(out) == count
        assert whole.read_bytes().startswith(out.read_bytes())
        assert out.read_bytes().endswith(b"\n") is not is_torn
    assert run(["batch", str(source), "-o", str(out), *common]) == 4
    assert out.read_bytes() == whole.read_bytes()


def test_an_interrupted_job_goes_on(stories: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(rows(400)))
    program = SIGNALLED.format(rows=3, is_torn=False, name="SIGSTOP")
    process = start("batch", source, "-o", out, "-m", stories, "-t", 1, program=program)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert lines_of(out) == 3
    # Nobody else may write it meanwhile.
    other = start("batch", source, "-o", out, "-m", stories, "-t", 1)
    try:
        _, error = other.communicate(timeout=240)
        assert (other.returncode, "another process" in error) == (5, True), error
        process.send_signal(signal.SIGINT)
    finally:
        os.kill(process.pid, signal.SIGCONT)
    _, error = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "the same command writes the others" in error
    assert "Traceback" not in error
    assert out.read_bytes().endswith(b"\n")
    assert 3 <= lines_of(out) < 400
