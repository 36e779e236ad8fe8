"""What is logged: facts for whoever runs a program, never what people said."""

import logging
import re
import subprocess
import sys

import pytest

from sslm.engine.model import Model
from sslm.errors.runtime import DeadlineExceededError
from tests.converted import stories_artifact

PROMPT = "Secretly, the fox"


def test_facts_are_logged_and_texts_are_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="sslm"), Model(stories_artifact()) as model:
        answer = model.generate(PROMPT, max_tokens=20)
        with model.stream(PROMPT, max_tokens=20) as stream:
            next(stream)
        with pytest.raises(DeadlineExceededError):
            model.generate(PROMPT, deadline_s=0)
    lines = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    opened, lies, answered = (line for line in lines if line.startswith("INFO"))
    for fact in (str(model.path), model.model_id, model.tier, "threads 1", " ms"):
        assert fact in opened
    size = model.path.stat().st_size
    assert re.fullmatch(rf"INFO in huge pages: (0|None) of {size} bytes", lies)
    count = answer.usage.prompt_tokens
    assert f"answered {count} prompt tokens with 20 tokens (length) in" in answered
    everything = "\n".join(lines)
    for said in ("fox", "Secretly", answer.text.strip()[:8], str(answer.token_ids)[1:-1]):
        assert said not in everything
    assert all(record.name == "sslm" for record in caplog.records)


def test_nothing_reaches_stderr_unasked() -> None:
    program = f"""
import sys, sslm
with sslm.load({str(stories_artifact())!r}, threads=2) as model:
    model.generate({PROMPT!r}, max_tokens=3)
    for prompt, options in (([1] * 600, {{}}), ([1], {{"deadline_s": 0}}), ([], {{}})):
        try:
            model.generate(prompt, **options)
        except sslm.SslmError:
            pass
    left_open = model.stream({PROMPT!r}, deadline_s=100)
    next(left_open)
    model.verify()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, timeout=240)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
