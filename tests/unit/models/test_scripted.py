"""The scripted model: what it answers, what it records, how it fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.errors import BadModelRequest, ModelRateLimited, ModelTimeout, ModelUnavailable, UsageError
from segue.models.protocol import Chunk, Finish, ModelRequest, ReasoningChunk, TextChunk, ToolCallChunk, Usage
from segue.models.scripted import Scripted


def request(text: str = "one two three", **more: Any) -> ModelRequest:
    return ModelRequest(messages=[{"role": "user", "content": text}], **more)


async def collect(model: Scripted, asked: ModelRequest) -> list[Chunk]:
    return [chunk async for chunk in model.stream(asked)]


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))


async def test_a_text_streams_in_a_few_chunks_and_counts_words_as_tokens() -> None:
    assert await collect(Scripted(["four words of text"]), request()) == [
        TextChunk("four "),
        TextChunk("words"),
        TextChunk(" of t"),
        TextChunk("ext"),
        Finish("stop", Usage(input_tokens=3, output_tokens=4), "scripted"),
    ]


async def test_reasoning_comes_before_text_and_calls_after_it() -> None:
    call = {"name": "search", "arguments": {"q": "x"}}
    model = Scripted([{"reasoning": "hm", "text": "ok", "tool_calls": [call, {**call, "id": "mine"}]}])
    assert await collect(model, request()) == [
        ReasoningChunk("h"),
        ReasoningChunk("m"),
        TextChunk("o"),
        TextChunk("k"),
        ToolCallChunk("call_1_1", "search", '{"q":"x"}'),
        ToolCallChunk("mine", "search", '{"q":"x"}'),
        Finish("tool_calls", Usage(input_tokens=3, output_tokens=6, reasoning_tokens=1), "scripted"),
    ]


async def test_arguments_given_as_text_are_passed_on_even_when_malformed() -> None:
    model = Scripted([{"tool_calls": [{"name": "search", "arguments": '{"q": '}]}])
    assert (await collect(model, request()))[0] == ToolCallChunk("call_1_1", "search", '{"q": ')


async def test_chunks_are_passed_on_as_they_are() -> None:
    chunks = [TextChunk("a"), Finish("length", Usage(output_tokens=9), "other")]
    assert await collect(Scripted([chunks]), request()) == chunks


async def test_chunks_without_an_end_get_one() -> None:
    ended = await collect(Scripted([[TextChunk("a b")]]), request())
    assert ended == [TextChunk("a b"), Finish("stop", Usage(input_tokens=3, output_tokens=2), "scripted")]


async def test_a_callable_answers_from_the_request() -> None:
    model = Scripted([lambda asked: asked.messages[-1]["content"].upper()])
    assert text_of(await collect(model, request("loud"))) == "LOUD"


async def test_choose_answers_with_that_choice() -> None:
    model = Scripted([{"choose": 1}, {"choose": -1}])
    asked = request(choices=["yes", "no", "maybe"])
    assert [text_of(await collect(model, asked)) for _ in range(2)] == ["no", "maybe"]


async def test_a_choice_that_the_request_does_not_have_is_an_error() -> None:
    with pytest.raises(UsageError, match="chooses 0, but the request has 0 choices"):
        await collect(Scripted([{"choose": 0}]), request())


async def test_one_call_more_than_scripted_says_how_many_there_were() -> None:
    model = Scripted(["only"])
    await collect(model, request())
    with pytest.raises(BadModelRequest, match="the script has 1 reply and this is call 2"):
        await collect(model, request())


async def test_requests_are_recorded_also_those_that_fail() -> None:
    model = Scripted([])
    asked = request("kept")
    with pytest.raises(BadModelRequest):
        await collect(model, asked)
    assert model.requests == [asked]


async def test_an_error_is_raised_typed_with_its_pause() -> None:
    model = Scripted([{"error": {"type": "rate_limited", "message": "slow down", "retry_after": 2.5}}])
    with pytest.raises(ModelRateLimited, match="slow down") as caught:
        await collect(model, request())
    assert caught.value.retry_after == 2.5


async def test_an_error_after_text_breaks_the_stream_off() -> None:
    stream = Scripted([{"text": "half", "error": {"type": "unavailable"}}]).stream(request())
    seen = [await anext(stream) for _ in range(4)]
    with pytest.raises(ModelUnavailable):
        await anext(stream)
    assert seen == [TextChunk("h"), TextChunk("a"), TextChunk("l"), TextChunk("f")]


async def test_an_error_instance_is_raised() -> None:
    error = ModelUnavailable("gone")
    with pytest.raises(ModelUnavailable) as caught:
        await collect(Scripted([error]), request())
    assert caught.value is error


async def test_a_delay_beyond_the_timeout_of_the_attempt_times_out() -> None:
    with pytest.raises(ModelTimeout, match=r"no reply within 0\.01 s"):
        await collect(Scripted([{"text": "late", "delay": 60}]), request(timeout=0.01))


async def test_closing_a_stream_early_is_counted() -> None:
    model = Scripted(["a long text", "whole"])
    stream = model.stream(request())
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    await collect(model, request())
    assert model.closed_early == 1


async def test_calls_at_the_same_time_each_get_their_own_reply() -> None:
    model = Scripted([str(n) for n in range(20)])
    answers = await asyncio.gather(*(collect(model, request()) for _ in range(20)))
    assert sorted(text_of(chunks) for chunks in answers) == sorted(str(n) for n in range(20))


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"txt": "typo"}, "unknown field `txt`"),
        ({"error": {"type": "nope"}}, "no error type 'nope'"),
        (7, "not a scripted reply"),
    ],
)
async def test_a_reply_of_another_shape_is_refused(reply: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await collect(Scripted([reply]), request())


def script_file(folder: Path, value: Any) -> Path:
    path = folder / "answers.json"
    path.write_bytes(msgspec.json.encode(value))
    return path


async def test_a_file_with_a_list_is_answered_from_in_order(tmp_path: Path) -> None:
    model = Scripted.from_file(script_file(tmp_path, ["first", {"text": "second"}]), "scripted:answers.json")
    assert [text_of(await collect(model, request())) for _ in range(2)] == ["first", "second"]


async def test_a_file_is_answered_from_its_beginning_each_time_it_is_loaded(tmp_path: Path) -> None:
    path = script_file(tmp_path, ["first", "second"])
    answers = [text_of(await collect(Scripted.from_file(path, "s"), request())) for _ in range(2)]
    assert answers == ["first", "first"]


async def test_rules_answer_before_replies_and_the_default_after_them(tmp_path: Path) -> None:
    rules = [{"contains": "weather", "reply": "rain"}]
    path = script_file(tmp_path, {"replies": ["one"], "rules": rules, "default": "again"})
    model = Scripted.from_file(path, "s")
    asked = ["the weather?", "x", "weather", "y", "z"]
    answers = [text_of(await collect(model, request(text))) for text in asked]
    assert answers == ["rain", "one", "rain", "again", "again"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not a script of replies"),
        (b'{"reply": []}', "unknown key 'reply'"),
        (b"[7]", "not a scripted reply"),
        (b'{"rules": [{"contains": "x"}]}', "missing required field `reply`"),
        (b'"text"', "is not a script of replies"),
    ],
)
def test_a_file_that_is_no_script_is_refused_when_it_is_loaded(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "answers.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        Scripted.from_file(path, "s")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the script .*nowhere\.json: No such file"):
        Scripted.from_file(tmp_path / "nowhere.json", "s")
