"""Figures as text: for a terminal, or for a document."""

from collections.abc import Sequence

from benchmarks.versus.figures import Figure, Speeds
from sslm.cli.screen.output import table_lines

HEAD = ("figure", "ratio", "target", "", "ours", "beside", "unit", "what is beside")
SPEED_HEAD = ("engine", "question", "threads", "tokens/s", "spread")


def figure_rows(figures: Sequence[Figure]) -> list[list[str]]:
    """Return a row for each figure."""
    return [
        [
            figure.key,
            f"{figure.value:.3g}" if figure.value < 100 else f"{figure.value:.0f}",
            "" if figure.target is None else f"{_sign(figure)} {figure.target:g}",
            {True: "met", False: "MISSED", None: ""}[figure.is_met],
            f"{figure.ours:.4g}",
            "" if figure.theirs is None else f"{figure.theirs:.4g}",
            figure.unit,
            figure.note,
        ]
        for figure in figures
    ]


def _sign(figure: Figure) -> str:
    return "≥" if figure.is_at_least else "≤"


def speed_rows(speeds: Speeds) -> list[list[str]]:
    """Return a row for each engine, question and number of threads."""
    return [
        [
            engine,
            question,
            str(threads),
            f"{speeds.tokens_per_s(threads, question, engine):.1f}",
            f"{speeds.spread(threads, question, engine):.0%}",
        ]
        for threads, question, engine in sorted(speeds.samples.answers)
    ]


def op_rows(speeds: Speeds) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of where our time goes, in percent."""
    found = [
        (engine, threads, name, described[f"{name}_op_ns"])
        for (threads, engine), described in sorted(speeds.samples.described.items())
        for name in ("prefill", "decode")
        if f"{name}_op_ns" in described
    ]
    kinds = sorted(
        {kind for *_, op_ns in found for kind, ns in op_ns.items() if ns},
        key=lambda kind: -max(op_ns[kind] / sum(op_ns.values()) for *_, op_ns in found),
    )
    rows = [
        [engine, name, str(threads)]
        + [f"{100 * op_ns[kind] / sum(op_ns.values()):.1f}" for kind in kinds]
        for engine, threads, name, op_ns in found
    ]
    return ["engine", "question", "threads", *(kind.replace("_", " ") for kind in kinds)], rows


def plain(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table for a terminal."""
    return "\n".join(table_lines(head, rows))


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table for a document."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
