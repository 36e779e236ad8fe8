"""What opening a model costs, in time and memory, beside the bounds that hold for the default one.

    python -m benchmarks.footprint MODEL.sslm [--rounds 7] [--cycles 100] [--json]

Everything is measured in new processes: the time of ``import sslm`` and of opening the model, whose
file is in memory by then; the size of its plan; the most memory that ``sslm generate`` has resident
beyond the weights, which it maps, and the pages of keys and values that it fills; and what many
openings leave behind. Exit 1 if a bound is exceeded. Of times the shortest counts: neighbours add
to a time, and never take from it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# No import of the package: a child begins with the memory that its parent has.

Environment = dict[str, str]

MIB = 1 << 20
BOUNDS = {
    "import_s": 0.15,
    "open_s": 0.3,
    "plan_bytes": 16 * MIB,
    "generate_beyond_bytes": 96 * MIB,
    "left_behind_bytes": 4 * MIB,
    "left_open": 0,
}
"""Of the default model, with 64 rows and 4,096 tokens of context."""

PROMPT = "The lighthouse keeper counted the boats. " * 20
ANSWER_TOKENS = 64
PAGE_TOKENS = 64
WARM_CYCLES = 10
SAMPLE_CYCLES = 5


def import_facts() -> dict[str, Any]:
    """Time the import; in a process of its own, like the functions below."""
    started = time.perf_counter()
    import sslm

    del sslm
    return {"import_s": time.perf_counter() - started}


def open_facts(path: Path) -> dict[str, Any]:
    """Time the first opening, and report sizes."""
    from sslm.engine.model import Model

    started, started_cpu = time.perf_counter(), time.process_time()
    with Model(path) as model:
        facts: dict[str, Any] = {
            "open_s": time.perf_counter() - started,
            "open_cpu_s": time.process_time() - started_cpu,
        }
        context_tokens = model.context_tokens
        return facts | {
            "context_tokens": context_tokens,
            "plan_bytes": model.footprint(0).scratch,
            "weights_bytes": model.footprint(0).weights,
            "kv_page_bytes": model.footprint(1).kv // -(-context_tokens // PAGE_TOKENS),
            "huge_page_bytes": model.artifact.huge_page_bytes(),
        }


def cycle_facts(path: Path, cycles: int) -> dict[str, Any]:
    """Open, use and close again and again; return what is left beyond the first few times."""
    from sslm.engine.model import Model

    def held() -> tuple[int, int]:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        anonymous_kib = int(status.partition("RssAnon:")[2].split()[0])
        count = sum(len(list(Path(f"/proc/self/{name}").iterdir())) for name in ("fd", "task"))
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        return anonymous_kib << 10, count + maps.count(path.name)

    def cycle() -> None:
        with Model(path) as model:
            model.generate([1], max_tokens=1)

    def lowest_held() -> tuple[int, int]:
        """What is held comes and goes with blocks that the allocator keeps for a while."""
        samples = []
        for _ in range(SAMPLE_CYCLES):
            cycle()
            samples.append(held())
        return min(size for size, _ in samples), min(count for _, count in samples)

    for _ in range(WARM_CYCLES):
        cycle()
    before_bytes, before_open = lowest_held()
    for _ in range(max(cycles - SAMPLE_CYCLES, 0)):
        cycle()
    after_bytes, after_open = lowest_held()
    return {
        "cycles": cycles,
        "left_behind_bytes": max(after_bytes - before_bytes, 0),
        "left_open": max(after_open - before_open, 0),
    }


def generate_facts(
    path: Path, environment: Environment, kv_page_bytes: int, weights_bytes: int
) -> dict[str, Any]:
    """Run the command, and return the most memory that it had."""
    command = [sys.executable, "-m", "sslm", "generate", PROMPT, "-m", str(path.absolute())]
    command += ["--max-tokens", str(ANSWER_TOKENS), "--json", "--no-progress"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        output = process.stdout.read() if process.stdout is not None else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"sslm generate ended with {process.returncode}")
    counts = json.loads(output)["usage"]
    tokens = counts["prompt_tokens"] + counts["completion_tokens"]
    peak_bytes = usage.ru_maxrss << 10
    kv_bytes = -(-tokens // PAGE_TOKENS) * kv_page_bytes
    return {
        "generate_tokens": tokens,
        "generate_peak_bytes": peak_bytes,
        "generate_kv_bytes": kv_bytes,
        "generate_beyond_bytes": peak_bytes - weights_bytes - kv_bytes,
    }


def in_child(kind: str, path: Path, cycles: int, environment: Environment) -> dict[str, Any]:
    """Return what one of the functions above reports in a new process."""
    command = [sys.executable, "-m", "benchmarks.footprint", str(path), "--only", kind]
    command += ["--cycles", str(cycles)]
    facts: dict[str, Any] = json.loads(subprocess.check_output(command, env=environment))
    return facts


@contextmanager
def with_bytecode() -> Iterator[Environment]:
    """Yield an environment in which modules are compiled once, as those that are installed are."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        yield kept | {"PYTHONPYCACHEPREFIX": folder}


def measure(path: Path, *, rounds: int, cycles: int) -> dict[str, Any]:
    """Return all facts, with the bounds and whether they hold."""
    with with_bytecode() as environment:
        # Once in vain: it compiles the modules, and brings the file into memory.
        opened = [in_child("open", path, cycles, environment) for _ in range(1 + rounds)][1:]
        imported = [in_child("import", path, cycles, environment) for _ in range(rounds)]
        facts = opened[-1]
        facts |= generate_facts(path, environment, facts["kv_page_bytes"], facts["weights_bytes"])
        facts |= in_child("cycles", path, cycles, environment)
    for name in ("open_s", "open_cpu_s"):
        facts[name] = round(min(one[name] for one in opened), 3)
    facts["import_s"] = round(min(one["import_s"] for one in imported), 3)
    exceeded = [name for name, most in BOUNDS.items() if facts[name] > most]
    return facts | {"bounds": BOUNDS, "exceeded": exceeded}


def main() -> int:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=("import", "open", "cycles"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only is not None:
        kinds: dict[str, Callable[[], object]] = {
            "import": import_facts,
            "open": lambda: open_facts(arguments.model),
            "cycles": lambda: cycle_facts(arguments.model, arguments.cycles),
        }
        print(json.dumps(kinds[arguments.only]()))
        return 0
    facts = measure(arguments.model, rounds=arguments.rounds, cycles=arguments.cycles)
    if arguments.json:
        print(json.dumps(facts))
    else:
        for name, value in facts.items():
            bound = f"  (at most {BOUNDS[name]})" if name in BOUNDS else ""
            if name != "bounds":
                print(f"{name:>24}  {value}{bound}")
    return 1 if facts["exceeded"] else 0


if __name__ == "__main__":
    sys.exit(main())
