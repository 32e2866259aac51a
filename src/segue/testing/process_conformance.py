"""What a store must do when several processes use it, some of them stopped or killed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from segue.errors import SessionBusy
from segue.stores.protocol import Store
from segue.testing import contention
from segue.testing.children import Child, acknowledged
from segue.testing.store_process import control_row, open_store, turn_row

SESSION = "s1"


class MultiProcessConformance:
    """Subclass it with `opener`, and `location` if a folder will not do."""

    opener: str
    """`module:callable` that gives a store when called with a location."""
    appends = 1000
    """Of each of the eight threads, in two processes, that write one session at once. The other tests do less."""

    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        return str(tmp_path / "sessions")

    @pytest.fixture
    def store(self, location: str) -> Iterator[Store]:
        with closing(open_store(self.opener, location)) as store:
            store.create(SESSION)
            yield store

    @pytest.fixture
    def children(self, location: str) -> Iterator[Children]:
        with ExitStack() as stack:
            yield Children(self.opener, location, stack)

    # Two processes of four threads that append, update and take turns, beside two that look and watch

    def test_nothing_is_lost_or_mixed_up_when_processes_write_at_once(
        self, store: Store, children: Children
    ) -> None:
        lookers = [children.ready("look", "2"), children.ready("follow"), children.ready("follow")]
        writers = children.writers(self.appends)
        written = [row for writer in writers for row in acknowledged(writer.end())]
        contention.finish(store, SESSION)
        rows = list(store.read(SESSION))
        assert contention.problems(rows, written) == []
        assert len(written) == len(rows) - 1
        shown = {"seqs": list(range(1, len(rows) + 1)), **contention.folded(rows)}
        assert [json.loads(looker.end()[-1]) for looker in lookers] == [[[], []], shown, shown]

    def test_nothing_is_lost_or_mixed_up_when_processes_are_stopped_and_continued(
        self, store: Store, children: Children
    ) -> None:
        follower, chance = children.ready("follow"), random.Random(1)
        writers = children.writers(max(self.appends // 5, 40))
        while all(writer.alive for writer in writers):
            victim = chance.choice(writers)
            victim.until(len(victim.said()) + chance.randrange(30))
            victim.stop()
            time.sleep(chance.random() * 0.05)
            victim.resume()
        written = [row for writer in writers for row in acknowledged(writer.end())]
        contention.finish(store, SESSION)
        rows = list(store.read(SESSION))
        assert contention.problems(rows, written) == []
        assert len(written) == len(rows) - 1
        shown = {"seqs": list(range(1, len(rows) + 1)), **contention.folded(rows)}
        assert json.loads(follower.end()[-1]) == shown

    def test_nothing_acknowledged_is_lost_when_processes_are_killed_while_they_write(
        self, store: Store, children: Children
    ) -> None:
        follower, chance = children.ready("follow"), random.Random(2)
        written: list[tuple[int, str]] = []
        for round_number in range(max(self.appends // 125, 2)):
            first, second = children.writers(100_000, f"round-{round_number}")
            first.until(chance.randrange(2, 200))
            written += acknowledged(first.kill())
            second.until(len(second.said()) + chance.randrange(2, 100))
            written += acknowledged(second.kill())
            assert contention.problems(list(store.read(SESSION)), written) == []
        contention.finish(store, SESSION)
        rows = list(store.read(SESSION))
        shown = {"seqs": list(range(1, len(rows) + 1)), **contention.folded(rows)}
        assert json.loads(follower.end()[-1]) == shown

    # One process beside this one

    def test_another_process_sees_every_row_once_in_order(self, store: Store, children: Children) -> None:
        watcher = children.start("watch", "60")
        for _ in range(30):
            store.append(SESSION, [control_row(), control_row()])
        assert watcher.end() == [str(number) for number in range(1, 61)]

    def test_what_was_acknowledged_survives_kill_9(self, store: Store, children: Children) -> None:
        for round_number in range(8):
            writer = children.start("write")
            writer.until(random.Random(round_number).randrange(1, 60))
            last = int(writer.kill()[-1])
            rows = list(store.read(SESSION))
            assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
            assert len(rows) >= last
            assert len(rows) % 3 == 0, "an append of three rows is there in part"

    def test_what_a_killed_process_wrote_is_marked(self, store: Store, children: Children) -> None:
        for round_number in range(8):
            known, writer = 0, children.start("write")
            for count in range(1, random.Random(round_number).randrange(2, 30)):
                writer.until(count)
                last = store.last_seq(SESSION)
                known = last if store.unmark(SESSION, last) else known
            writer.kill()
            assert store.marked() == [SESSION] or store.last_seq(SESSION) == known

    def test_a_session_goes_on_after_kill_9(self, store: Store, children: Children) -> None:
        writer = children.start("write")
        writer.until(30)
        writer.kill()
        lease = store.acquire(SESSION, holder="the next one")
        last = store.last_seq(SESSION)
        [seq] = store.append(SESSION, [turn_row()], lease=lease)
        # an append that was written but not acknowledged may be published now
        assert seq in (last + 1, last + 4)

    def test_a_living_process_keeps_its_lease_even_when_stopped(
        self, store: Store, children: Children
    ) -> None:
        holder = children.start("hold")
        assert holder.until(1) == ["held"]
        holder.stop()
        with pytest.raises(SessionBusy, match="the other process"):
            store.acquire(SESSION, holder="me", wait=0.2)
        assert "the other process" in (store.holder(SESSION) or "")

    def test_a_stopped_process_has_its_lease_when_it_is_continued(
        self, store: Store, children: Children
    ) -> None:
        writer = children.start("write")
        writer.until(5)
        writer.stop()
        with pytest.raises(SessionBusy):
            store.acquire(SESSION, holder="me", wait=0.2)
        said = len(writer.said())
        writer.resume()
        assert len(writer.until(said + 30)) >= said + 30

    def test_a_control_row_is_admitted_while_the_process_that_runs_the_turn_is_stopped(
        self, store: Store, children: Children
    ) -> None:
        holder = children.start("hold")
        assert holder.until(1) == ["held"]
        holder.stop()
        assert store.append(SESSION, [control_row()]) == [1]

    def test_a_process_that_runs_a_turn_sees_the_control_rows_of_others(
        self, store: Store, children: Children
    ) -> None:
        holder = children.start("hold", "1")
        assert holder.until(1) == ["held"]
        store.append(SESSION, [control_row(b'{"title":"for the turn"}')])
        assert holder.until(2) == ["held", "for the turn"]

    def test_the_lease_of_a_dead_process_is_free_at_once(self, store: Store, children: Children) -> None:
        holder = children.start("hold")
        assert holder.until(1) == ["held"]
        holder.kill()
        assert store.holder(SESSION) is None
        assert store.acquire(SESSION, holder="me").epoch > 0

    def test_an_append_by_another_process_is_continued(self, store: Store, children: Children) -> None:
        store.append(SESSION, [control_row()])
        writer = children.ready("contend", "other", "1", "3")
        writer.go()
        assert [seq for seq, _ in acknowledged(writer.end())] == [2, 3, 4]
        assert store.append(SESSION, [control_row()]) == [5]


class Children:
    """Starts processes with the same store; all are killed at the end of the test."""

    def __init__(self, opener: str, location: str, stack: ExitStack) -> None:
        self._opener, self._location, self._stack = opener, location, stack

    def start(self, command: str, *arguments: str) -> Child:
        child = Child(self._opener, self._location, command, SESSION, *arguments)
        return self._stack.enter_context(child)

    def ready(self, command: str, *arguments: str) -> Child:
        child = self.start(command, *arguments)
        assert child.until(1) == ["ready"]
        return child

    def writers(self, appends: int, name: str = "process") -> list[Child]:
        """Two processes of four threads, which begin together."""
        both: list[Any] = [
            self.start("contend", f"{name}-{number}", "4", str(appends)) for number in range(2)
        ]
        for child in both:
            assert child.until(1) == ["ready"]
        for child in both:
            child.go()
        return both
