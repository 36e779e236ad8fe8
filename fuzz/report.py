"""How the results of a search are told."""

from typing import Any, Final

from fuzz.campaign import Summary

_OUTCOMES_SHOWN: Final = 60


def facts_of(summary: Summary) -> dict[str, Any]:
    """Return all of a summary as plain JSON."""
    return {
        "target": summary.target,
        "seconds": round(summary.seconds, 1),
        "executions": summary.executions,
        "executions_per_second": round(summary.executions / max(summary.seconds, 1e-3), 1),
        "edges": summary.counters[0],
        "features": summary.counters[1],
        "corpus_inputs": summary.corpus_inputs,
        "corpus_bytes": summary.corpus_bytes,
        "restarts": summary.restarts,
        "seconds_max": round(summary.seconds_max, 3),
        "growth_bytes_max": summary.growth_bytes_max,
        "outcomes": dict(summary.outcomes.most_common()),
        "findings": summary.findings,
        "missed": summary.missed,
        "unconfirmed": summary.unconfirmed,
        "lines": summary.lines,
    }


def progress_line(summary: Summary) -> str:
    """Return one line on how far a search is."""
    rate = summary.executions / max(summary.seconds, 1e-3)
    return (
        f"{summary.target}: {summary.seconds:.0f} s, {summary.executions} executions "
        f"({rate:.0f}/s), {summary.counters[0]} edges, {summary.corpus_inputs} in corpus, "
        f"{len(summary.findings)} findings"
    )


def summary_text(summary: Summary) -> str:
    """Return a summary for a person."""
    facts = facts_of(summary)
    lines = [
        f"target       {facts['target']}",
        f"time         {facts['seconds']} s",
        f"executions   {facts['executions']} ({facts['executions_per_second']}/s)",
        f"coverage     {facts['edges']} edges, {facts['features']} features (libFuzzer)",
        f"corpus       {facts['corpus_inputs']} inputs, {facts['corpus_bytes']} bytes",
        f"restarts     {facts['restarts']}",
        f"slowest      {facts['seconds_max']} s, instrumented",
        f"largest      {facts['growth_bytes_max'] / (1 << 20):.1f} MiB",
        *coverage_lines(summary.lines),
        "outcomes",
        *(
            f"  {count:>10}  {name}"
            for name, count in summary.outcomes.most_common(_OUTCOMES_SHOWN)
        ),
        f"missed       {', '.join(summary.missed) or 'nothing that sound inputs reach'}",
        f"unconfirmed  {len(summary.unconfirmed)}",
        f"findings     {len(summary.findings)}",
        *(f"  {path}: {story}" for path, story in summary.findings.items()),
    ]
    return "\n".join(lines)


def coverage_lines(lines: dict[str, Any]) -> list[str]:
    """Return what a corpus reaches of each module: lines inside functions."""
    modules = lines.get("modules", {})
    if not modules:
        return [f"lines        unknown: {lines.get('error', 'nothing was replayed')}"]
    total = sum(one["lines"] for one in modules.values())
    reached = sum(one["reached"] for one in modules.values())
    return [
        f"lines        {reached} of {total} ({100 * reached // max(total, 1)} %), "
        f"by {lines['replayed']} of {lines['inputs']} inputs",
        *(f"  {one['reached']:>5} of {one['lines']:<5} {name}" for name, one in modules.items()),
    ]
