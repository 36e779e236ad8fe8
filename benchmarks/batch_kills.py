"""Kill ``sslm batch`` at random, start it again, and compare with a run that nothing disturbed.

    python -m benchmarks.batch_kills MODEL.sslm --kills 50

Rows of many lengths, some of them sampled, some with schemas, some refused. A process gets SIGKILL
(or, with --interrupts, SIGINT): one in four at a random time from its start on, the others within a
fifth of a second after their first line. After each, the file must be a beginning of the
undisturbed one; a job that has come to its end begins anew. Exit 1 if it ever is not, or is not
equal at its end.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sslm.serving.batch_lines import ANSWERED

_REFUSED_EVERY = 7
"""One row of so many asks for what no request has, or for a schema that is none."""
_SCHEMA_EVERY = 3
"""One row of so many follows one of as many schemas."""
_SCHEMAS = (
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 4},
    {"enum": ["once", "upon", "a time"]},
    {"type": "string", "maxLength": 20},
)


def rows(count: int, order: random.Random) -> str:
    """Return the lines of a file of requests."""
    lines = []
    for number in range(count):
        body: dict[str, Any] = {
            "prompt": "Once upon a time " * order.choice([1, 2, 12]),
            "max_tokens": order.randrange(1, 40),
            "temperature": number % 2,
        }
        if number % _SCHEMA_EVERY == 0:
            schema = _SCHEMAS[number // _SCHEMA_EVERY % len(_SCHEMAS)]
            wrapped = {"name": str(number), "schema": schema}
            # As many tokens as the longest of the shortest answers.
            body["max_tokens"] += 20
            body["response_format"] = {"type": "json_schema", "json_schema": wrapped}
        if is_unsound(number):
            body |= {"unknown": 1} if number % 2 else {"response_format": None, "schema": 1}
        fields = {"custom_id": str(number), "method": "POST", "url": "/v1/completions"}
        lines.append(json.dumps(fields | {"body": body}) + "\n")
    return "".join(lines)


def is_unsound(number: int) -> bool:
    """Tell whether a row is one that is to be refused."""
    return number % _REFUSED_EVERY == _REFUSED_EVERY - 1


def command(source: Path, out: Path, model: Path) -> list[str]:
    """Return the command as a program of its own."""
    job = ["batch", str(source), "-o", str(out), "-m", str(model), "-t", "1", "-q"]
    return [sys.executable, "-m", "sslm", *job]


def wait_for_growth(process: "subprocess.Popen[bytes]", out: Path) -> None:
    """Wait until a process has written a line, or has ended."""
    before = size_of(out)
    while process.poll() is None and size_of(out) <= before:
        time.sleep(0.002)


def size_of(path: Path) -> int:
    """Return the bytes of a file, 0 if it is not there."""
    return path.stat().st_size if path.exists() else 0


def answers_of(content: bytes) -> int:
    """Return how many lines of a file of answers are none of refusals."""
    responses = [json.loads(line)["response"] for line in content.splitlines()]
    return sum(response["status_code"] == ANSWERED for response in responses)


def main() -> int:
    """Kill, compare, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--interrupts", action="store_true")
    given = parser.parse_args()
    order = random.Random(given.seed)
    number = signal.SIGINT if given.interrupts else signal.SIGKILL
    with tempfile.TemporaryDirectory() as folder:
        source, out, whole = (Path(folder, name) for name in ("in", "out", "whole"))
        source.write_text(rows(given.rows, order))
        started_s = time.perf_counter()
        subprocess.run(command(source, whole, given.model), check=False)
        longest_s = time.perf_counter() - started_s
        expected = whole.read_bytes()
        sound = sum(not is_unsound(number) for number in range(given.rows))
        if (answered := answers_of(expected)) != sound:
            raise SystemExit(f"undisturbed, {answered} rows were answered of {sound}")
        kills = ends = torn = wrong = 0
        places = set()
        while kills < given.kills:
            process = subprocess.Popen(command(source, out, given.model))
            if order.randrange(4):
                wait_for_growth(process, out)
                time.sleep(order.uniform(0, 0.2))
            else:
                time.sleep(order.uniform(0, longest_s))
            if process.poll() is None:
                process.send_signal(number)
                kills += 1
            process.wait()
            found = out.read_bytes() if out.exists() else b""
            places.add(len(found))
            torn += bool(found) and not found.endswith(b"\n")
            wrong += not expected.startswith(found)
            if found == expected:
                ends += 1
                out.unlink()
        subprocess.run(command(source, out, given.model), check=False)
        wrong += out.read_bytes() != expected
    print(
        f"{given.rows} rows, {len(expected)} bytes, {longest_s:.1f} s undisturbed: {kills} of "
        f"{number.name}, {len(places)} different lengths found, {torn} torn lines, "
        f"{ends} jobs that ended between; {wrong} differences"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
