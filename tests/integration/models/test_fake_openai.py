"""The fake server as a program, and its answers in one piece."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from segue.testing.fake_openai import FakeOpenAI


def post(base_url: str, body: dict[str, Any]) -> Any:
    data = json.dumps(body).encode()
    asked = urllib.request.Request(f"{base_url}/chat/completions", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as response:
        return json.load(response)


def test_a_reply_that_is_not_streamed_comes_in_one_piece() -> None:
    reply = {"reasoning": "hm", "text": "ok", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]}
    with FakeOpenAI([reply]) as server:
        answer = post(server.base_url, {"model": "m", "messages": [{"role": "user", "content": "hi you"}]})
    call = {"id": "call_1_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    message = {"role": "assistant", "content": "ok", "tool_calls": [call], "reasoning_content": "hm"}
    assert answer == {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {
            "prompt_tokens": 2,
            "completion_tokens": 4,
            "total_tokens": 6,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    }


def test_leaving_the_block_ends_replies_that_are_still_delayed() -> None:
    with FakeOpenAI([{"text": "late", "delay": 600}]) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, server.base_url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert server.arrived.wait(20)
    assert process.wait(20) != -signal.SIGKILL


CLIENT = """
import sys, urllib.request
urllib.request.urlopen(sys.argv[1] + "/chat/completions", b"{}", timeout=60)
"""


def test_it_serves_a_file_from_the_shell_until_ctrl_c(tmp_path: Path) -> None:
    script = tmp_path / "answers.json"
    script.write_text('{"default": "from the file"}', encoding="utf-8")
    command = [sys.executable, "-m", "segue.testing.fake_openai", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()
        answer = post(base_url, {"messages": []})
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (answer["choices"][0]["message"]["content"], errors, process.returncode) == (
        "from the file",
        "",
        0,
    )
