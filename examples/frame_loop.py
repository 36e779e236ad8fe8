"""A 60 Hz loop in which four characters speak, each with a little of every frame.

A game has a few milliseconds of a frame for its characters, and must get them back. Here four of
them share what they all know (one prefix, computed once), the memory is fixed in advance, and a
scheduler advances them within the budget, frame by frame. What they say is what the model says
without any slices: ``--check`` compares.

Example: python examples/frame_loop.py -m smollm2-135m --frames 3600 --budget-ms 4 --check
"""

import argparse
import gc
import json
import math
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, takewhile
from pathlib import Path

import sslm
from sslm import limits
from sslm.artifact.atomic_file import atomic_file
from sslm.bench.frame_times import FrameTimes, draw_frames, frame_table
from sslm.bench.plot import ENDINGS, require_picture
from sslm.cli.failures import explain

SCENE = (
    "The storm has cut the harbour town off from the world. Four people sit at one table of the inn"
    " and wait for the morning: Ada, who keeps the lighthouse; Bram, a smuggler; Cora, the doctor;"
    " and Dirk, who owns the inn. They do not trust each other, but they talk.\n"
)
NAMES = ("Ada", "Bram", "Cora", "Dirk")
TOPICS = (
    "about the storm",
    "about the ship that is missing",
    "about the light at sea",
    "about the key",
    "about the stranger upstairs",
    "about the price of fish",
)
MAX_TOKENS = 40
LINE_TOKENS = 96
"""Most tokens of a line with what it begins with."""
FRAMES_PER_SECOND = 60


@dataclass
class Character:
    """Somebody who speaks, one line after the other."""

    name: str
    sequence: sslm.LiveSequence
    topics: deque[str]
    lines: list[tuple[list[int], sslm.Completion]] = field(default_factory=list)

    def finish_line(self) -> str:
        """Keep the line that is complete, begin the next one, and return the first."""
        answer = self.sequence.result()
        self.lines.append((self.sequence.prompt_token_ids, answer))
        self.topics.rotate(-1)
        self.sequence.reset(line_of(self.name, self.topics[0]), max_tokens=MAX_TOKENS, stop=STOPS)
        return f"{self.name}: {' '.join(answer.text.split())}"


STOPS = ('"', "\n")


def line_of(name: str, topic: str) -> str:
    """Return what a character's line begins with."""
    return f'{name} says {topic}: "'


class Scene:
    """Four characters on one prefix, and what advances them.

    Args:
        model: What they speak with.
        count: How many characters there are.
    """

    def __init__(self, model: sslm.Model, count: int = len(NAMES)) -> None:
        scene_tokens = len(model.tokenizer.encode(SCENE))
        # All memory for what they remember, from here to the end: what they share, and of each a
        # line, with the page on which it begins.
        self.pool = model.kv_pool(tokens=scene_tokens + count * (LINE_TOKENS + 64))
        self.scheduler = model.scheduler()
        self.prefix = model.prefix(SCENE, pool=self.pool)
        self.scheduler.add(self.prefix)
        self.characters: list[Character] = []
        self._model = model
        self._count = count
        self._context_tokens = scene_tokens + LINE_TOKENS

    def frame(self, budget_ms: float) -> None:
        """Compute for so many milliseconds. This is all that costs a frame time."""
        for failure in self.scheduler.run(max_ms=budget_ms):
            raise failure.error

    def news(self) -> Iterator[str]:
        """Yield the lines that are complete, and let their characters go on."""
        if self.prefix.done and not self.characters:
            self._enter()
        for character in self.characters:
            if character.sequence.done:
                yield character.finish_line()

    @property
    def line_count(self) -> int:
        """How many lines are complete."""
        return sum(len(character.lines) for character in self.characters)

    def _enter(self) -> None:
        """Let the characters begin, now that they know where they are."""
        for index, name in enumerate(NAMES[: self._count]):
            topics = deque(TOPICS)
            topics.rotate(-index)
            sequence = self._model.sequence(
                line_of(name, topics[0]),
                max_tokens=MAX_TOKENS,
                stop=STOPS,
                prefix=self.prefix,
                context_tokens=self._context_tokens,
            )
            self.characters.append(Character(name, sequence, topics))
            self.scheduler.add(sequence)

    def close(self) -> None:
        """Give everything back."""
        for character in self.characters:
            character.sequence.close()
        self.prefix.close()
        self.pool.close()


def run_frames(
    scene: Scene, *, frames: Iterable[int], budget_ms: float, is_paced: bool, show: bool
) -> list[FrameTimes]:
    """Run the loop for each of *frames*; return thread CPU and wall time of each one's share."""
    cpu_ns: list[int] = []
    wall_ns: list[int] = []
    next_frame = time.perf_counter()
    for _ in frames:
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        scene.frame(budget_ms)
        cpu_ns.append(time.thread_time_ns() - cpu)
        wall_ns.append(time.perf_counter_ns() - wall)
        for line in scene.news():
            if show:
                print(line, flush=True)
        # The rest of the frame is the game's.
        next_frame += 1 / FRAMES_PER_SECOND
        if is_paced:
            time.sleep(max(0, next_frame - time.perf_counter()))
    return [
        FrameTimes(name="thread CPU time", durations_ns=cpu_ns, budget_ms=budget_ms),
        FrameTimes(name="wall time", durations_ns=wall_ns, budget_ms=budget_ms),
    ]


def frames_until(scene: Scene, line_count: int) -> Iterator[int]:
    """Count frames until so many lines are complete, however much a frame has room for."""
    return takewhile(lambda _: scene.line_count < line_count, count())


def differing_lines(model: sslm.Model, scene: Scene) -> int:
    """Return how many lines the model would say differently in one piece."""
    return sum(
        model.generate(prompt, max_tokens=MAX_TOKENS, stop=STOPS) != answer
        for character in scene.characters
        for prompt, answer in character.lines
    )


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    about, _, example = (__doc__ or "").rpartition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=example, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("-m", "--model", default="smollm2-135m", help="a name or a .sslm file [%(default)s]")
    add("-t", "--threads", type=int, default=1, help="threads that compute [%(default)s]")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--frames", type=int, default=1200, metavar="N", help="how many [%(default)s]"
    )
    length.add_argument("--lines", type=int, metavar="N", help="until so many are complete")
    add("--budget-ms", type=float, default=4.0, metavar="F", help="of each frame [%(default)s]")
    add("--characters", type=int, choices=range(1, 5), default=4, help="[%(default)s]")
    add("--unpaced", action="store_true", help="one frame right after the other")
    add("--check", action="store_true", help="compare every line with the unsliced answer")
    add("--plot", type=Path, metavar="FILE", help="draw the times, as .png or .svg")
    add("--json", action="store_true", help="print the figures as JSON, and nothing else")
    options = parser.parse_args(arguments)
    if options.frames < 1:
        parser.error("--frames must be at least 1")
    if options.lines is not None and options.lines < 1:
        parser.error("--lines must be at least 1")
    if not 1 <= options.threads <= limits.THREAD_COUNT_MAX:
        parser.error(f"--threads must be from 1 to {limits.THREAD_COUNT_MAX}")
    if not (math.isfinite(options.budget_ms) and 0 <= options.budget_ms <= limits.SLICE_MS_MAX):
        parser.error(f"--budget-ms must be from 0 to {limits.SLICE_MS_MAX}")
    if options.plot and options.plot.suffix[1:].lower() not in ENDINGS:
        parser.error(f"{options.plot} does not end in .{' or .'.join(ENDINGS)}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the loop, print what came of it, and return the exit code.

    It is 1 if a line differs from the unsliced one or ``--check`` had none to compare, and else
    that of the ``sslm`` command, with its words for what went wrong.
    """
    options = parsed(arguments)
    try:
        if options.plot:
            require_picture(options.plot, is_replaced=True)
        facts, times = measured(options)
        print(json.dumps(facts) if options.json else report(facts, times))
        if options.plot:
            title = f"{options.characters} characters, {options.budget_ms:g} ms of each frame"
            with atomic_file(options.plot) as file:
                draw_frames(times, title, file, ending=options.plot.suffix[1:].lower())
    except (sslm.SslmError, KeyboardInterrupt) as error:
        return explain(error, is_json=options.json)
    if options.check and not facts["lines"]:
        print(
            "no line was finished, so that nothing was compared; run more frames", file=sys.stderr
        )
        return 1
    return 1 if facts["differing_lines"] else 0


def measured(options: argparse.Namespace) -> tuple[dict[str, object], list[FrameTimes]]:
    """Run the loop; return what came of it, and the times of its frames."""
    # In memory of its own: a file's pages may be small, and are the system's to take away.
    with sslm.load(options.model, threads=options.threads, mmap=False) as model:
        # While the game loads: brings the weights and the tokenizer into memory, and all that is
        # there to stay out of the sight of Python's collector, which takes milliseconds for it.
        model.generate(SCENE, max_tokens=2)
        gc.collect()
        gc.freeze()
        with closing(Scene(model, options.characters)) as scene:
            times = run_frames(
                scene,
                frames=range(options.frames)
                if options.lines is None
                else frames_until(scene, options.lines),
                budget_ms=options.budget_ms,
                is_paced=not options.unpaced,
                show=not options.json,
            )
            lines = [line for character in scene.characters for line in character.lines]
            facts: dict[str, object] = {
                "tier": model.tier,
                "threads": model.threads,
                "frames": len(times[0].durations_ns),
                "budget_ms": options.budget_ms,
                "lines": len(lines),
                "tokens": sum(len(answer.token_ids) for _, answer in lines),
                # Of none it cannot be said that they are the same.
                "differing_lines": differing_lines(model, scene)
                if options.check and lines
                else None,
                "ms": {one.name: one.facts() for one in times},
            }
    return facts, times


def report(facts: dict[str, object], times: Sequence[FrameTimes]) -> str:
    """Return the end of what a person reads."""
    lines = [
        "",
        f"{facts['frames']} frames, {facts['budget_ms']} ms of each for the model; "
        f"{facts['lines']} lines, {facts['tokens']} tokens",
        frame_table(times),
    ]
    if facts["differing_lines"] is not None:
        lines.append(f"lines that differ from the unsliced answer: {facts['differing_lines']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
