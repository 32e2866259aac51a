"""What a store must do when several processes use it, some of them killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from segue.errors import SessionBusy
from segue.stores.protocol import Store
from segue.testing.store_process import control_row, open_store, turn_row

SESSION = "s1"
SECONDS = 120.0
"""A child that is not done by then hangs."""


class MultiProcessConformance:
    """Subclass it with `opener`, and `location` if a folder will not do."""

    opener: str
    """`module:callable` that gives a store when called with a location."""

    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        return str(tmp_path / "sessions")

    @pytest.fixture
    def store(self, location: str) -> Iterator[Store]:
        with closing(open_store(self.opener, location)) as store:
            store.create(SESSION)
            yield store

    def test_rows_of_two_processes_with_four_threads_are_gapless(self, store: Store, location: str) -> None:
        command = ("append", "4", "150")
        with self._child(location, *command) as one, self._child(location, *command) as two:
            _release(one, two)
            shown = self._read_while_turns_alternate(store)
            acknowledged = [
                seq for child in (one, two) for seq in _seqs(child.communicate(timeout=SECONDS)[0])
            ]
        rows = list(store.read(SESSION))
        control = [row.seq for row in rows if row.type == "SESSION_UPDATED"]
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        assert (sorted(acknowledged), len(control)) == (control, 2400)
        assert shown == sorted(shown)

    def test_another_process_sees_every_row_once_in_order(self, store: Store, location: str) -> None:
        with self._child(location, "watch", "60") as watcher:
            for _ in range(30):
                store.append(SESSION, [control_row(), control_row()])
            assert watcher.communicate(timeout=SECONDS)[0].split() == [str(n) for n in range(1, 61)]

    def test_what_was_acknowledged_survives_kill_9(self, store: Store, location: str) -> None:
        for round_number in range(8):
            with self._child(location, "write") as writer:
                acknowledged = _lines(writer, random.Random(round_number).randrange(1, 60))
                writer.kill()
                acknowledged += _seqs(writer.communicate()[0])
            rows = list(store.read(SESSION))
            assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
            assert len(rows) >= acknowledged[-1]
            assert len(rows) % 3 == 0, "an append of three rows is there in part"

    def test_a_session_goes_on_after_kill_9(self, store: Store, location: str) -> None:
        with self._child(location, "write") as writer:
            _lines(writer, 30)
            writer.kill()
            writer.wait()
            lease = store.acquire(SESSION, holder="the next one")
            last = store.last_seq(SESSION)
            [seq] = store.append(SESSION, [turn_row()], lease=lease)
            # an append that was written but not acknowledged may be published now
            assert seq in (last + 1, last + 4)

    def test_what_a_killed_process_wrote_is_marked(self, store: Store, location: str) -> None:
        for round_number in range(8):
            known = 0
            with self._child(location, "write") as writer:
                for _ in range(random.Random(round_number).randrange(1, 30)):
                    _lines(writer, 1)
                    last = store.last_seq(SESSION)
                    known = last if store.unmark(SESSION, last) else known
                writer.kill()
            assert store.marked() == [SESSION] or store.last_seq(SESSION) == known

    def test_a_living_process_keeps_its_lease_even_when_stopped(self, store: Store, location: str) -> None:
        with self._child(location, "hold") as child:
            assert _line(child) == "held\n"
            os.kill(child.pid, signal.SIGSTOP)
            try:
                with pytest.raises(SessionBusy, match="the other process"):
                    store.acquire(SESSION, holder="me", wait=0.2)
                assert "the other process" in (store.holder(SESSION) or "")
            finally:
                os.kill(child.pid, signal.SIGCONT)

    def test_the_lease_of_a_dead_process_is_free_at_once(self, store: Store, location: str) -> None:
        with self._child(location, "hold") as child:
            assert _line(child) == "held\n"
            child.kill()
            child.wait()
            assert store.holder(SESSION) is None
            assert store.acquire(SESSION, holder="me").epoch > 0

    def test_an_append_by_another_process_is_continued(self, store: Store, location: str) -> None:
        store.append(SESSION, [control_row()])
        with self._child(location, "append", "1", "3") as child:
            _release(child)
            child.communicate(timeout=SECONDS)
        assert store.append(SESSION, [control_row()]) == [8]

    @contextmanager
    def _child(self, location: str, command: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        module = [sys.executable, "-m", "segue.testing.store_process", self.opener, location]
        with subprocess.Popen(
            [*module, command, SESSION, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            try:
                yield child
            finally:
                child.kill()

    def _read_while_turns_alternate(self, store: Store) -> list[int]:
        """Take the turn again and again; gives the last seqs seen, in that order."""
        shown = []
        for _ in range(40):
            lease = store.acquire(SESSION, holder="the turn", wait=SECONDS)
            store.append(SESSION, [turn_row(), turn_row()], lease=lease)
            store.release(lease)
            shown += [store.last_seq(SESSION), len(list(store.read(SESSION)))]
        return shown


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def _release(*children: subprocess.Popen[str]) -> None:
    """Let them begin together, once all are ready."""
    for child in children:
        assert _line(child) == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()


def _lines(child: subprocess.Popen[str], count: int) -> list[int]:
    return [int(_line(child)) for _ in range(count)]


def _seqs(output: str) -> list[int]:
    """The numbers on whole lines: a killed process may leave half of one."""
    return [int(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]
