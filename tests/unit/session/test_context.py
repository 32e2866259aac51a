from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor as PlainExecutor

import pytest

import segue
from segue.errors import NoSession, SessionBusy, TurnEnded, TurnInProgress, TurnSettled, UsageError
from segue.session.ambient import _call_id, _current_runtime, _current_turn_id, _store, current_session
from segue.session.context import session_context
from segue.session.db import SessionDB

AMBIENT = (_store, _current_turn_id, _current_runtime, _call_id)


def types(db: SessionDB, session_id: str) -> list[str]:
    return [row.type for row in db.read(session_id)]


def ambient() -> list[object]:
    return [var.get() for var in AMBIENT]


def node(name: str = "f", **fields: object) -> dict[str, object]:
    return {"kind": "function", "name": name, **fields}


def test_looking_at_a_session_writes_nothing_but_its_creation(db: SessionDB) -> None:
    with session_context("looked-at") as session:
        assert session.created
    with session_context("looked-at") as session:
        assert not session.created
    assert types(db, "looked-at") == ["SESSION_CREATED"]


async def test_asynchronous_code_waits_for_a_busy_session_without_blocking_the_loop(db: SessionDB) -> None:
    @segue.agentic_function
    async def work() -> str:
        return "done"

    db.create_session("s")
    lease = db.store.acquire("s", holder="somebody else")
    asyncio.get_running_loop().call_later(0.05, db.store.release, lease)  # a blocked loop never would
    async with session_context("s", wait=30):
        assert await work() == "done"
    assert types(db, "s")[-1] == "NO_MORE_ACTIONS"


async def test_a_wait_for_a_busy_session_that_is_cancelled_or_too_long_leaves_no_lease(db: SessionDB) -> None:
    @segue.agentic_function
    async def work() -> str:
        return "done"

    async def turn(wait: float) -> None:
        async with session_context("s", wait=wait):
            await work()

    db.create_session("s")
    lease = db.store.acquire("s", holder="somebody else")
    with pytest.raises(SessionBusy, match="somebody else"):
        await turn(0.05)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(turn(30), 0.05)
    db.store.release(lease)
    assert (db.store.holder("s"), types(db, "s")) == (None, ["SESSION_CREATED"])


def test_without_an_id_a_new_session_is_made_each_time(db: SessionDB) -> None:
    with session_context(id_prefix="research") as first, session_context() as second:
        assert first.session_id.startswith("research_")
        assert second.session_id.startswith("adhoc_")
    assert sorted(db.store.sessions()) == sorted([first.session_id, second.session_id])


def test_the_first_row_opens_the_turn_and_leaving_settles_it(db: SessionDB) -> None:
    with session_context("s") as session:
        node_id = session.writer.append(node())
        session.writer.update(node_id, status="completed", result={"a": [1]})
    assert types(db, "s") == [
        "SESSION_CREATED",
        "INVOCATION_STARTED",
        "CALL_STARTED",
        "CALL_ENDED",
        "NO_MORE_ACTIONS",
    ]
    assert db.store.holder("s") is None


def test_all_four_variables_are_restored_whatever_happens(db: SessionDB) -> None:
    before = ambient()
    with pytest.raises(ZeroDivisionError), session_context("s"), session_context("other"):
        assert ambient() != before
        raise ZeroDivisionError
    assert ambient() == before


def test_a_nested_context_restores_the_outer_session(db: SessionDB) -> None:
    with session_context("outer") as outer:
        with session_context("inner"):
            assert current_session().session_id == "inner"  # type: ignore[union-attr]
        assert current_session() is outer.writer


@pytest.mark.parametrize(
    ("raised", "last_rows", "status"),
    [
        (ValueError("no"), ["ERROR", "NO_MORE_ACTIONS"], "failed"),
        (KeyboardInterrupt(), ["CALL_ENDED", "TURN_CANCELLED"], "cancelled"),
        (SystemExit(143), ["CALL_STARTED", "SESSION_ERROR"], "interrupted"),
        (asyncio.CancelledError(), ["CALL_STARTED", "SESSION_ERROR"], "interrupted"),
    ],
)
def test_how_a_turn_is_left_is_how_it_ends(
    db: SessionDB, raised: BaseException, last_rows: list[str], status: str
) -> None:
    with pytest.raises(type(raised)), session_context("s") as session:
        session.writer.append(node())
        raise raised
    assert types(db, "s")[-2:] == last_rows
    assert db.turns("s").last.status == status  # type: ignore[union-attr]


def test_entering_the_same_session_joins_its_turn(db: SessionDB) -> None:
    with session_context("s") as outer:
        outer.writer.append(node())
        with session_context("s") as inner:
            assert inner.turn_id == outer.turn_id
            inner.writer.append(node("g"))
        outer.writer.append(node("h"))
    assert types(db, "s").count("INVOCATION_STARTED") == 1
    assert types(db, "s").count("NO_MORE_ACTIONS") == 1


def test_another_turn_while_one_runs_here_is_refused(db: SessionDB) -> None:
    with session_context("s"), pytest.raises(TurnInProgress):
        session_context("s", turn_id="turn_other").__enter__()


def test_a_settled_turn_is_not_opened_again(db: SessionDB) -> None:
    with session_context("s") as session:
        session.writer.append(node())
    with pytest.raises(TurnSettled, match="completed"):
        session_context("s", turn_id=session.turn_id).__enter__()


def test_an_unfinished_turn_is_resumed_with_the_next_attempt(db: SessionDB) -> None:
    with pytest.raises(SystemExit), session_context("s", turn_id="turn_1") as session:
        session.writer.append(node())
        raise SystemExit(143)
    with session_context("s", turn_id="turn_1") as session:
        session.writer.append(node())
    attempts = [row.payload.get("attempt", 1) for row in db.read("s") if row.type == "INVOCATION_STARTED"]
    assert attempts == [1, 2]
    assert [(turn.turn_id, turn.status) for turn in db.turns("s").all] == [("turn_1", "completed")]


def test_a_writer_is_revoked_when_its_turn_ends(db: SessionDB) -> None:
    with session_context("s") as session:
        session.writer.append(node())
    with pytest.raises(TurnEnded):
        session.writer.append(node())
    assert types(db, "s")[-1] == "NO_MORE_ACTIONS"


def test_an_instance_is_entered_once(db: SessionDB) -> None:
    context = session_context("s")
    with context:
        pass
    with pytest.raises(UsageError):
        context.__enter__()


async def test_the_asynchronous_form_behaves_alike(db: SessionDB) -> None:
    async with session_context("s") as session:
        await asyncio.to_thread(session.writer.append, node())
    assert types(db, "s")[-1] == "NO_MORE_ACTIONS"
    assert current_session() is None


async def test_cancelling_a_task_interrupts_its_turn_resumably(db: SessionDB) -> None:
    started = asyncio.Event()

    async def work() -> None:
        async with session_context("s") as session:
            session.writer.append(node())
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert db.turns("s").last.status == "interrupted"  # type: ignore[union-attr]


def test_a_plain_thread_has_no_session_and_our_executor_carries_it(db: SessionDB) -> None:
    def session_id() -> str | None:
        session = current_session()
        return session.session_id if session else None

    with session_context("s"):
        with PlainExecutor(1) as plain:
            assert plain.submit(session_id).result() is None
        with segue.ThreadPoolExecutor(1) as carrying:
            assert carrying.submit(session_id).result() == "s"
            assert carrying.submit(lambda: None).result() is None
        copied = contextvars.copy_context()
    thread_saw: list[str | None] = []
    thread = threading.Thread(target=lambda: thread_saw.append(copied.run(session_id)))
    thread.start()
    thread.join()
    assert thread_saw == [None], "the turn has ended, so the copy leads nowhere"


def test_asking_outside_any_session_names_the_fix() -> None:
    with pytest.raises(NoSession, match="session_context"):
        segue.ask_user("Which one?")


def steps(name: str) -> Iterator[str]:
    with session_context(name):
        for _ in range(3):
            writer = current_session()
            assert writer is not None
            writer.append(node(name))
            yield writer.session_id


def names(db: SessionDB, session_id: str) -> list[str]:
    return [row.payload["name"] for row in db.read(session_id) if row.type == "CALL_STARTED"]


def test_interleaved_bound_generators_keep_their_own_sessions(db: SessionDB) -> None:
    a, b = segue.bind(steps("A")), segue.bind(steps("B"))
    assert [next(a), next(b), next(a), next(b), next(a), next(b)] == ["A", "B"] * 3
    a.close()  # type: ignore[attr-defined]
    b.close()  # type: ignore[attr-defined]
    assert (names(db, "A"), names(db, "B")) == (["A"] * 3, ["B"] * 3)
    assert current_session() is None


def test_unbound_interleaved_generators_leave_no_session_behind(db: SessionDB) -> None:
    a, b = steps("A"), steps("B")
    next(a), next(b)
    a.close()
    b.close()
    assert current_session() is None


def test_a_bound_generator_keeps_the_turn_open_that_it_was_made_in(db: SessionDB) -> None:
    def body() -> Iterator[int]:
        for index in range(2):
            current_session().append(node(f"step{index}"))  # type: ignore[union-attr]
            yield index

    with session_context("s"):
        bound = segue.bind(body())
    assert current_session() is None
    assert list(bound) == [0, 1]
    assert names(db, "s") == ["step0", "step1"]
    assert db.turns("s").last.status == "completed"  # type: ignore[union-attr]


async def test_leaving_an_async_generator_early_raises_nothing_anywhere(db: SessionDB) -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))

    async def events():  # type: ignore[no-untyped-def]
        with session_context("s"):
            yield 1
            yield 2

    async for _ in events():
        break
    foreign = events()
    await anext(foreign)
    await asyncio.create_task(foreign.aclose())
    stepwise = segue.bind(events())
    assert [await asyncio.create_task(_next(stepwise)) for _ in range(2)] == [1, 2]
    await stepwise.aclose()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    await asyncio.get_running_loop().shutdown_asyncgens()
    assert errors == []
    assert current_session() is None


async def _next(generator):  # type: ignore[no-untyped-def]
    return await anext(generator)
