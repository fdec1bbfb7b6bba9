"""A plugin of pytest: at the end of a run, one line for each reason with the number of tests that it skipped."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each reason once; the option `-rs` of pytest would print a line for each place that skips."""
    longreprs = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    reasons = Counter(text[-1].removeprefix("Skipped: ") for text in longreprs if isinstance(text, tuple))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"SKIPPED [{count}] {reason}")
