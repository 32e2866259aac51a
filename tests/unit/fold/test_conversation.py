from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from segue.events import EVENT_TYPES, Envelope
from segue.fold import INTERRUPTED, STITCH, Conversation, Diagnostic, active, fold, fold_from, messages
from segue.testing.validity import problems


def said(text: Any, kind: str = "user_message") -> tuple[str, Any]:
    return ("INVOCATION_STARTED", {"reason": {"kind": kind, "input": text}})


def start(message_id: str = "m", **more: Any) -> tuple[str, Any]:
    return ("MESSAGE_START", {"message_id": message_id, **more})


def text(words: Any, message_id: str = "m", kind: str = "text") -> tuple[str, Any]:
    return ("MESSAGE_DELTA", {"message_id": message_id, "delta": {"type": kind, "text": words}})


def end(message_id: str = "m", **more: Any) -> tuple[str, Any]:
    return ("MESSAGE_END", {"message_id": message_id, **more})


def call(call_id: str = "c", arguments: Any = None, **more: Any) -> tuple[str, Any]:
    return ("TOOL_CALL", {"tool_call_id": call_id, "name": "f", "arguments": arguments or {}, **more})


def approval(call_id: str = "c", **more: Any) -> tuple[str, Any]:
    return ("TOOL_APPROVAL_REQUIRED", {"tool_call_id": call_id, "name": "f", "arguments": {}, **more})


def result(value: Any, call_id: str = "c", **more: Any) -> tuple[str, Any]:
    return ("TOOL_RESULT", {"tool_call_id": call_id, "result": value, **more})


def wire(call_id: str = "c", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


CRASH = ("SESSION_ERROR", {"message": "the process ended"})


def test_a_started_tool_is_no_longer_pending_although_its_call_is_open(journal: Any) -> None:
    view = fold(
        journal(said("q"), start(), end(), call(), approval(), ("TOOL_STARTED", {"tool_call_id": "c"}))
    )
    assert view.pending_tool_calls == []
    assert view.messages()[-1] == {"role": "assistant", "content": "", "tool_calls": [wire()]}


def test_an_approval_asked_again_after_a_start_is_pending_again(journal: Any) -> None:
    started = ("TOOL_STARTED", {"tool_call_id": "c"})
    assert fold(
        journal(said("q"), call(), approval(), started, approval(reason="retry"))
    ).pending_tool_call == {
        "tool_call_id": "c",
        "name": "f",
        "arguments": {},
        "reason": "retry",
    }


def test_two_approvals_wait_in_the_order_of_their_calls(journal: Any) -> None:
    view = fold(journal(said("q"), call("a"), call("b"), approval("b"), approval("a")))
    assert [pending["tool_call_id"] for pending in view.pending_tool_calls] == ["a", "b"]


def test_a_late_end_takes_the_crash_mark_away_and_the_call_is_pending_again(journal: Any) -> None:
    rows = journal(said("q"), call(), approval(), start("n"), CRASH, end("n"))
    assert [m["content"] for m in messages(rows)] == ["q", "", INTERRUPTED, ""]
    assert [m["content"] for m in messages(rows[:-1])] == ["q", "", INTERRUPTED, "", STITCH]


def test_rows_of_a_call_belong_to_its_own_history_only(journal: Any) -> None:
    inside = {"called_by": "node_1"}
    rows = journal(
        said("q"),
        start("i", **inside),
        ("MESSAGE_DELTA", {"message_id": "i", "delta": {"type": "text", "text": "inner"}, **inside}),
        ("MESSAGE_END", {"message_id": "i", **inside}),
        call("k", **inside),
        result("r", "k", **inside),
        start("m"),
        text("outer"),
        end(),
    )
    assert messages(rows) == [{"role": "user", "content": "q"}, {"role": "assistant", "content": "outer"}]
    assert fold(rows, call="node_1").messages() == [
        {"role": "assistant", "content": "inner", "tool_calls": [wire("k")]},
        {"role": "tool", "tool_call_id": "k", "content": "r"},
    ]
    assert fold(rows, call="node_2").messages() == []


def test_an_empty_called_by_is_the_conversation(journal: Any) -> None:
    assert len(fold(journal(start(called_by=""), start("n", called_by=None)))) == 2


@pytest.mark.parametrize(
    ("reason", "content"),
    [
        ({"kind": "user_message", "input": ""}, ""),
        (
            {"kind": "user_message", "input": [{"type": "text", "text": "hi"}]},
            [{"type": "text", "text": "hi"}],
        ),
        ({"kind": "user_message", "input": ["hi"]}, '["hi"]'),
        ({"kind": "user_message", "input": []}, "[]"),
        ({"kind": "user_message", "input": None}, "null"),
        ({"kind": "direct_call", "input": "do it"}, "do it"),
        ({"kind": "direct_call", "input": {"n": 10**5000}}, '{"n": 1' + "0" * 5000 + "}"),
    ],
)
def test_what_a_user_gives_becomes_the_user_message(journal: Any, reason: Any, content: Any) -> None:
    assert messages(journal(("INVOCATION_STARTED", {"reason": reason}))) == [
        {"role": "user", "content": content}
    ]


@pytest.mark.parametrize(
    "kind", ["direct_call", "approval_decision", "question_answer", "recovery", "unheard_of"]
)
def test_a_reason_without_user_input_adds_no_message(journal: Any, kind: str) -> None:
    view = fold(journal(("INVOCATION_STARTED", {"reason": {"kind": kind}})))
    assert (view.messages(), view.diagnostics) == ([], [])


def test_a_pair_of_surrogates_split_over_two_deltas_is_one_character(journal: Any) -> None:
    rows = journal(
        start(),
        text("a\ud83d"),
        text("\ude00b"),
        text("\ud83d", kind="reasoning"),
        text("\ude00", kind="reasoning"),
    )
    assert messages(rows) == [{"role": "assistant", "content": "a😀b", "reasoning_content": "😀"}]


def test_a_pair_split_by_a_reading_in_between_is_joined_too(journal: Any) -> None:
    view, rows = Conversation(), journal(start(), text("\ud83d"), text("\ude00"))
    for row in rows:
        view.apply(row)
        view.messages()
    assert view.messages() == [{"role": "assistant", "content": "😀"}]


def test_results_keep_integers_over_the_limit_of_the_interpreter(journal: Any) -> None:
    rows = journal(call(arguments=[-(10**5000)]), result({"é": [10**5000, True, None, 1.5]}))
    assert messages(rows) == [
        {"role": "assistant", "content": "", "tool_calls": [wire(arguments="[-1" + "0" * 5000 + "]")]},
        {
            "role": "tool",
            "tool_call_id": "c",
            "content": '{"\\u00e9": [1' + "0" * 5000 + ", true, null, 1.5]}",
        },
    ]


def test_a_result_without_an_open_call_is_left_out_and_reported(journal: Any) -> None:
    view = fold(journal(said("q"), result("x", "ghost"), call(), result("a"), result("b")))
    assert [m["content"] for m in view.messages()] == ["q", "", "a"]
    assert view.diagnostics == [
        Diagnostic(2, "TOOL_RESULT", "no open call has the id 'ghost': its result is left out"),
        Diagnostic(5, "TOOL_RESULT", "no open call has the id 'c': its result is left out"),
    ]


HOSTILE: list[Any] = [
    None,
    5,
    True,
    "text",
    [],
    [None],
    {},
    {"a": 1},
    1.5,
    [[[]]],
    {"type": []},
    {"kind": ["x"]},
]
KEYS = [
    "message_id",
    "delta",
    "role",
    "tool_call_id",
    "name",
    "arguments",
    "result",
    "reason",
    "messages",
    "called_by",
]


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_no_payload_of_any_type_breaks_the_fold(journal: Any, kind: str) -> None:
    whole = dict.fromkeys(KEYS, "m") | {
        "delta": {"type": "text", "text": "t"},
        "messages": [],
        "called_by": "",
    }
    spoilt = [{**whole, key: value} for key in KEYS for value in HOSTILE]
    missing = [{key: whole[key] for key in KEYS if key != left_out} for left_out in KEYS]
    view = Conversation()
    for row in journal(
        said("q"), start(), call(), *[(kind, payload) for payload in [*HOSTILE, *spoilt, *missing]]
    ):
        view.apply(row)
        assert problems(view.messages()) == []


def test_a_value_nested_too_deep_is_reported_and_left_out(journal: Any) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    rows = journal(start(), ("MESSAGE_DELTA", {"message_id": "m", "delta": deep}), call(), result(deep))
    view = fold(rows)
    assert [diagnostic.seq for diagnostic in view.diagnostics] == [2, 4]
    assert view.messages() == [{"role": "assistant", "content": "", "tool_calls": [wire()]}]
    while deep:  # let go of it level by level
        deep = deep[0]


def test_what_is_returned_can_be_changed_without_a_trace(journal: Any) -> None:
    state = {"data": [1]}
    snapshot = [{"role": "user", "content": [{"type": "text", "text": "s"}], "extra": {"a": [1]}}]
    rows = journal(
        ("TRANSCRIPT_COMPACTED", {"messages": snapshot, "replaces_up_to_seq": 0}),
        said([{"type": "text", "text": "hi"}]),
        start(),
        ("MESSAGE_DELTA", {"message_id": "m", "delta": {"type": "image", "urls": ["u"]}}),
        end(framework_state=state),
        call(arguments={"a": [1]}),
        approval(arguments={"a": [1]}),
    )
    view = fold(rows)
    first, pending = view.messages(), view.pending_tool_call
    ruin(first)
    ruin(pending)
    assert view.messages() == fold(rows).messages() != first
    assert view.pending_tool_call == fold(rows).pending_tool_call != pending
    assert (state, snapshot[0]["extra"]) == ({"data": [1]}, {"a": [1]})


def ruin(value: Any) -> None:
    for item in list(value.values() if isinstance(value, dict) else value):
        if isinstance(item, (dict, list)):
            ruin(item)
    value.clear()


def test_a_copy_grows_apart_from_its_original(journal: Any) -> None:
    native = ("MESSAGE_DELTA", {"message_id": "m", "delta": {"type": "image"}})
    head, tail = journal(start(), text("a"), native, call()), journal(text("b"), native, result("r"))
    view = fold(head)
    before = view.messages()
    twin = view.copy()
    view.extend(tail)
    assert twin.messages() == before
    assert view.messages() == fold_from(twin, tail).messages() == fold([*head, *tail]).messages()
    assert twin.messages() == before


@pytest.mark.parametrize("settled", [False, True], ids=["as it grew", "after it was read"])
def test_two_copies_that_grow_apart_do_not_know_of_each_other(journal: Any, settled: bool) -> None:
    def growth(word: str) -> list[Any]:
        thought = ("MESSAGE_DELTA", {"message_id": "m", "delta": {"type": "reasoning", "text": word}})
        chunk = ("MESSAGE_DELTA", {"message_id": "m", "delta": {"type": word}})
        return [text(word), thought, chunk, call(word), approval(word), result(word, word), end()]

    head = [start(), *growth("a")[:3], call("c"), call("d"), result("known", "d")]
    original = fold(journal(*head))
    if settled:
        original.messages()
    one, other = original.copy(), original.copy()
    for row in zip(journal(*growth("b")), journal(*growth("c")), strict=True):
        one.apply(row[0]), other.apply(row[1])
    assert one.messages() == fold(journal(*head, *growth("b"))).messages()
    assert other.messages() == fold(journal(*head, *growth("c"))).messages()
    assert original.messages() == fold(journal(*head)).messages()


def test_messages_from_a_position_on_are_the_end_of_all_messages(journal: Any) -> None:
    view = fold(journal(said("a"), call(), result("r"), said("b"), start()))
    whole = view.messages()
    assert [view.messages(at) for at in range(7)] == [whole[at:] for at in range(7)]
    assert view.messages(-2) == whole[-2:]


def test_a_compaction_forgets_what_was_before_and_keeps_the_call_that_waits(journal: Any) -> None:
    summary = (
        "TRANSCRIPT_COMPACTED",
        {"messages": [{"role": "user", "content": "sum"}], "replaces_up_to_seq": 3},
    )
    view = fold(journal(said("q"), call(), approval(digest="d"), summary))
    assert view.messages() == [
        {"role": "user", "content": "sum"},
        {"role": "assistant", "content": "", "tool_calls": [wire()]},
    ]
    assert view.pending_tool_call == {"tool_call_id": "c", "name": "f", "arguments": {}, "digest": "d"}


@pytest.mark.parametrize(
    "snapshot",
    [
        [{"role": "tool", "tool_call_id": "x", "content": "orphan"}],
        [{"role": "assistant", "content": "", "tool_calls": [wire("x")]}, {"role": "user", "content": "on"}],
        [{"role": "assistant", "content": "", "tool_calls": [wire("x"), wire("x")]}],
        [
            {"role": "assistant", "content": None},
            {"role": "user", "content": None},
            {"role": "boss", "content": ""},
        ],
        [{"role": "user", "content": "", "tool_calls": [wire("x")]}, None, 5, "text", []],
        [{"role": "assistant", "content": "", "tool_calls": [{"id": 5}, None, {"id": "x", "function": {}}]}],
        [
            {"role": "assistant", "content": "", "tool_calls": [wire("x")]},
            {"role": "tool", "tool_call_id": "x", "content": "1"},
            {"role": "tool", "tool_call_id": "x", "content": "2"},
            {"role": "tool", "tool_call_id": ["x"], "content": None},
        ],
    ],
)
def test_a_snapshot_that_no_provider_would_take_is_mended(journal: Any, snapshot: Any) -> None:
    view = fold(journal(("TRANSCRIPT_COMPACTED", {"messages": snapshot}), said("next")))
    assert problems(view.messages()) == []
    assert view.messages()[-1] == {"role": "user", "content": "next"}


def test_a_head_moved_back_hides_the_rows_between(journal: Any) -> None:
    rows = journal(said("a"), start(), text("old"), end(), ("HEAD_MOVED", {"to_seq": 0}), said("b"))
    assert [row.seq for row in active(rows)] == [6]
    assert messages(rows) == [{"role": "user", "content": "b"}]


def test_the_head_can_move_back_twice(journal: Any) -> None:
    rows = journal(
        said("a"),
        said("b"),
        ("HEAD_MOVED", {"to_seq": 1}),
        said("c"),
        ("HEAD_MOVED", {"to_seq": 3}),
        said("d"),
    )
    assert [m["content"] for m in messages(rows)] == ["a", "d"]


@pytest.mark.parametrize("to_seq", [None, "1", -1, True, 2, 99, [1]])
def test_a_head_moved_to_no_earlier_row_hides_nothing(journal: Any, to_seq: Any) -> None:
    assert [m["content"] for m in messages(journal(said("a"), ("HEAD_MOVED", {"to_seq": to_seq})))] == ["a"]


def calls_made(work: Any) -> int:
    """How many Python and C functions were called: a cost without a clock."""
    count = 0

    def counting(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # a collection calls what others have registered
    sys.setprofile(counting)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def streamed(journal: Any, deltas: int) -> int:
    rows = journal(said("q"), start(), *[text("word ") for _ in range(deltas)], end())
    return calls_made(lambda: Conversation().extend(rows).messages())


def test_ten_times_the_deltas_cost_ten_times_the_work(journal: Any) -> None:
    assert streamed(journal, 100_000) <= 10 * streamed(journal, 10_000)


def test_the_next_turn_costs_the_same_after_ten_turns_and_after_a_thousand(journal: Any) -> None:
    turn = [said("q"), start(), text("a"), call(), result("r"), end()]

    def cost(turns: int) -> int:
        view = Conversation().extend(journal(*turn * turns))
        length = len(view)
        rows: list[Envelope] = journal(*turn)
        return calls_made(lambda: view.extend(rows).messages(length))

    assert cost(1000) == cost(10)


def test_many_parallel_calls_in_one_message_cost_in_proportion(journal: Any) -> None:
    def cost(count: int) -> int:
        rows = journal(
            *[call(f"c{at}") for at in range(count)], *[result("r", f"c{at}") for at in range(count)]
        )
        return calls_made(lambda: Conversation().extend(rows).messages())

    assert cost(2000) <= 10.1 * cost(200)


def test_a_later_move_of_the_head_leads_back_to_a_branch_that_an_earlier_one_hid() -> None:
    def row(seq: int, type_: str, **payload: object) -> Envelope:
        return Envelope(f"e{seq}", "s", "d", seq, type_, payload, "")

    def asked(seq: int, words: str) -> Envelope:
        return row(seq, "INVOCATION_STARTED", reason={"kind": "user_message", "input": words})

    rows = [asked(1, "a"), asked(2, "b"), row(3, "HEAD_MOVED", to_seq=1), asked(4, "c")]
    assert [message["content"] for message in messages(rows)] == ["a", "c"]
    back = [*rows, row(5, "HEAD_MOVED", to_seq=2), asked(6, "d")]
    assert [message["content"] for message in messages(back)] == ["a", "b", "d"]
