"""What every test run says at its end: which backends and CPU tiers it reached, and which not.

A test belongs to a backend or tier if its parameters name it: ``test_linear[avx2-odd shapes]``.
``SSLM_REQUIRE_TIERS``, names separated by spaces or commas, turns one that no test reached, or that
any test skipped, into a failure of the whole run.
"""

import os
import platform
import re
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from sslm.cli.cores import use_blas_threads

TIERS: Final = ("reference", "scalar", "avx2", "avxvnni", "avx512vnni", "neon", "amx")
"""Names by which tests say what they run on: the reference backend, then the native tiers."""

LONG_MODULE: Final = "module above the length to aim at"
"""Property by which the tidy test reports a module that is long, but not too long."""

_REQUIRED: Final = "SSLM_REQUIRE_TIERS"

# As commands have it. Two workers whose products have two threads each wait for one another most
# of the time.
use_blas_threads()

# How long examples take to make is no verdict.
settings.register_profile("sslm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A continuous run tries the same examples each time: a failure belongs to the change under test.
settings.register_profile("sslm-ci", settings.get_profile("sslm"), derandomize=True, database=None)
settings.load_profile("sslm-ci" if os.environ.get("CI") else "sslm")


class TierReport:
    """Counts outcomes by tier, and decides whether a required tier is missing."""

    def __init__(self, required: tuple[str, ...]) -> None:
        self.required = required
        self.outcomes: dict[str, Counter[str]] = {tier: Counter() for tier in TIERS}
        self.reasons: dict[str, set[str]] = {tier: set() for tier in TIERS}
        self.long_modules: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one test; a skip or an error in its preparation ends it too."""
        if report.when != "call" and report.passed:
            return
        self.long_modules += [
            str(text) for key, text in report.user_properties if key == LONG_MODULE
        ]
        words = set(re.split(r"[\[\]\-]", report.nodeid.partition("::")[2]))
        for tier in words.intersection(TIERS):
            self.outcomes[tier][report.outcome] += 1
            if report.skipped and isinstance(report.longrepr, tuple):
                self.reasons[tier].add(report.longrepr[2].removeprefix("Skipped: "))

    def missing(self) -> list[str]:
        """Return the required tiers that no test reached, or that some test skipped."""
        return [
            tier
            for tier in self.required
            if not self.outcomes[tier]["passed"] or self.outcomes[tier]["skipped"]
        ]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail a run that would otherwise pass without what was required."""
        if self.missing() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the section."""
        line = terminalreporter.write_line
        terminalreporter.section(f"backends and CPU tiers on {platform.machine()}")
        for tier in TIERS:
            counts = self.outcomes[tier]
            text = ", ".join(f"{counts[name]} {name}" for name in sorted(counts)) or "no test"
            reached = "" if counts["passed"] else "NOT RUN: "
            why = "".join(f" ({reason})" for reason in sorted(self.reasons[tier]))
            line(f"{tier:<11} {reached}{text}{why}", red=tier in self.missing())
        for tier in self.missing():
            line(f"{_REQUIRED} asks for {tier}, which was not fully tested", red=True)
        for text in self.long_modules:
            line(f"{LONG_MODULE}: {text} lines")


def pytest_configure(config: pytest.Config) -> None:
    """Install the report, and refuse names that no tier has."""
    required = tuple(filter(None, re.split(r"[\s,]+", os.environ.get(_REQUIRED, ""))))
    unknown = sorted(set(required) - set(TIERS))
    if unknown:
        raise pytest.UsageError(f"{_REQUIRED} names {unknown}, known are {list(TIERS)}")
    # A worker reports to the process that started it, which sees the tests of all.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(TierReport(required), "sslm-tiers")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Let a test, and the processes that it starts, hear interrupts as in a terminal's foreground.

    What starts the tests in the background may have them ignored, as ``nohup`` and a shell without
    job control do, and a process inherits that. Between tests it stays as it was.
    """
    heard: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    ignored = [number for number in heard if signal.getsignal(number) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, heard[number])
    try:
        return (yield)
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
