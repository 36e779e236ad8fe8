"""This package beside llama.cpp and OpenVINO GenAI, measured by turns in one run.

    python benchmarks/versus_llama_cpp.py [--json | --markdown] [--quick] [--rounds 5]
        [--threads 1,2] [--int8 M.sslm] [--int4 M.sslm] [--gguf M.gguf]
        [--work FOLDER] [--llama-python PYTHON]... [--openvino-python PYTHON]
        [--clock wall|cpu] [--tier TIER]

All engines run the same source file: ours its conversions to int8 and int4, llama.cpp what its own
quantizer makes of it (Q8_0, Q4_0), OpenVINO the Q8_0. Files that are not named are made once and
kept. Every engine has a process of its own that stays loaded; one runs at a time, by turns, and the
read ceiling of the memory is sampled between. Of several builds of llama.cpp (--llama-python, once
for each) the fastest counts, figure by figure. docs/performance.md says how to build them.

The exit code is 0 also if a target is missed; 1 if there is no peer to compare with.
"""

import argparse
import json
import os
import platform
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.versus.costs import measure_costs, measure_large
from benchmarks.versus.figures import Figure, Speeds, all_figures
from benchmarks.versus.files import Files, default_work_folder, make_files
from benchmarks.versus.rounds import (
    INT4,
    INT8,
    OPENVINO,
    Q4_0,
    Q8_0,
    Samples,
    ask_ops,
    questions,
    run_round,
    warm_up,
)
from benchmarks.versus.tables import (
    HEAD,
    SPEED_HEAD,
    figure_rows,
    markdown,
    op_rows,
    plain,
    speed_rows,
)
from benchmarks.versus.workers import Engine, WorkerError, started


def note(text: str) -> None:
    """Tell a person how far it is."""
    print(text, file=sys.stderr, flush=True)


def engines(files: Files, options: argparse.Namespace) -> list[Engine]:
    """Return everybody who is measured."""
    tier = (options.tier,)
    found = [
        Engine(name=INT8, script="serve_sslm.py", model=files.int8, more=tier),
        Engine(name=INT4, script="serve_sslm.py", model=files.int4, more=tier),
    ]
    for index, python in enumerate(options.llama_python, 1):
        build = f", build {index}" if len(options.llama_python) > 1 else ""
        for family, model in ((Q8_0, files.q8_0), (Q4_0, files.q4_0)):
            found.append(
                Engine(
                    name=f"{family}{build}",
                    script="serve_llama_cpp.py",
                    model=model,
                    python=python,
                )
            )
    found.append(
        Engine(
            name=OPENVINO,
            script="serve_openvino.py",
            model=files.q8_0,
            python=options.openvino_python,
        )
    )
    return found


def measure(files: Files, options: argparse.Namespace) -> Samples:
    """Measure everybody by turns, with one number of threads after the other."""
    samples = Samples()
    asked = questions(is_quick=options.quick)
    for threads in options.threads:
        with ExitStack() as stack:
            note(f"threads: {threads}: loading")
            workers = [
                stack.enter_context(started(engine, threads)) for engine in engines(files, options)
            ]
            usable = warm_up(workers, samples, asked)
            for index in range(options.rounds):
                note(f"threads: {threads}: round {index + 1} of {options.rounds}")
                run_round(usable, samples, asked, is_backwards=index % 2 == 1)
            ask_ops(usable, samples, is_quick=options.quick)
    return samples


def facts(
    speeds: Speeds, figures: list[Figure], more: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Return everything as JSON has it."""
    return {
        "machine": {"cpu": cpu_name(), "cpus": os.cpu_count(), "system": platform.platform()},
        "rounds": options.rounds,
        "clock": options.clock,
        "ratios": {figure.key: figure.facts() for figure in figures if "ratio" in figure.key},
        "costs": {figure.key: figure.facts() for figure in figures if "ratio" not in figure.key},
        "speeds": [
            {
                "engine": engine,
                "question": question,
                "threads": threads,
                "tokens_per_s": speeds.tokens_per_s(threads, question, engine),
                "spread": speeds.spread(threads, question, engine),
                "samples": answers,
            }
            for (threads, question, engine), answers in sorted(speeds.samples.answers.items())
        ],
        "ceilings_bytes_per_s": {
            f"{engine}, threads: {threads}": found
            for (threads, engine), found in sorted(speeds.samples.ceilings.items())
        },
        "engines": [
            {"engine": engine, "threads": threads, **described}
            for (threads, engine), described in sorted(speeds.samples.described.items())
        ],
        **more,
        "problems": speeds.samples.problems,
    }


def cpu_name() -> str:
    """Return the CPU's name, where the system tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def show(speeds: Speeds, figures: list[Figure], *, is_markdown: bool) -> None:
    """Print the tables."""
    table = markdown if is_markdown else plain
    print(table(HEAD, figure_rows(figures)))
    print()
    print(table(SPEED_HEAD, speed_rows(speeds)))
    print("\nwhere our time goes, in percent\n")
    print(table(*op_rows(speeds)))
    memory = [
        [engine, str(threads), f"{found['load_s']:.2f}", f"{found['peak_bytes'] / 1e6:.0f}"]
        for (threads, engine), found in sorted(speeds.samples.described.items())
    ]
    print()
    print(table(("engine", "threads", "load, s", "peak memory, MB"), memory))
    for problem in speeds.samples.problems:
        print(f"\n{problem}")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("int8", "int4", "gguf"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--work", type=Path, help="where files are kept")
    parser.add_argument("--llama-python", action="append", metavar="PYTHON")
    parser.add_argument("--openvino-python", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--threads", type=lambda text: tuple(map(int, text.split(","))), default=(1, 2)
    )
    parser.add_argument("--tier", default="auto")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--quick", action="store_true", help="two rounds of shorter answers")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    options.llama_python = options.llama_python or [sys.executable]
    options.rounds = options.rounds or (2 if options.quick else 5)
    return options


def main() -> int:
    """Parse, measure, print."""
    options = parse()
    try:
        files = make_files(
            options.work or default_work_folder(),
            int8=options.int8,
            int4=options.int4,
            gguf=options.gguf,
            llama_pythons=options.llama_python,
            note=note,
        )
    except WorkerError as error:
        note(str(error))
        return 1
    return compare(files, options)


def compare(files: Files, options: argparse.Namespace) -> int:
    """Measure everybody, print the figures, and return the exit code."""
    samples = measure(files, options)
    note("a model larger than the caches, opening, memory")
    rounds = 5 if options.quick else 30
    large = {one: measure_large(one, options.tier, rounds=rounds) for one in options.threads}
    costs = measure_costs(files.int8)
    speeds = Speeds(samples, options.clock)
    figures = all_figures(speeds, options.threads, large, costs)
    if options.json:
        print(json.dumps(facts(speeds, figures, {"large": large, "footprint": costs}, options)))
    else:
        show(speeds, figures, is_markdown=options.markdown)
    has_peer = any(engine.startswith((Q8_0, Q4_0)) for _, engine in samples.described)
    if not has_peer:
        note("no build of llama.cpp could be measured; docs/performance.md says how to build it")
    return 0 if has_peer else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        note("interrupted")
        sys.exit(130)
