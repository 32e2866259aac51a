"""Fixtures of all tests: no test sees the real home, configuration or provider keys."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.session.db import SessionDB, default_db

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # started in the background: what tests start shall be stoppable
    signal.signal(signal.SIGINT, signal.default_int_handler)

PRIVATE = ("SEGUE_MODEL", "SEGUE_DEPLOYMENT_ID", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL")

SUMMARY = "summary"
"""The name of a property that a test records for people: it is shown at the end, whichever process ran the test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: then no process runs one alone at the end."""
    items.sort(key=lambda item: "crash" not in item.path.parts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in [
        report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)
    ]:
        for name, text in report.user_properties:
            if name == SUMMARY and report.when == "call":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(text)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "segue-home"
    monkeypatch.setenv("SEGUE_HOME", str(home))
    for name in PRIVATE:
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def db(home: Path) -> Iterator[SessionDB]:
    """The default sessions of this test's home, on a real git store."""
    opened = default_db()
    yield opened
    opened.close()
