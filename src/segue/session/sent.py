"""What each model call was sent, kept under `context/` as a chain: an entry holds its parent's digest and the parts
that it adds, so a conversation of n calls costs in proportion to n, not to its square."""

from __future__ import annotations

from typing import Any

from segue.events.codec import decode_json, encode_json
from segue.models.protocol import ModelRequest
from segue.session.prompt import Message, Prompt
from segue.stores.protocol import Store

FOLDER = "context"


def record_sent(store: Store, session_id: str, prompt: Prompt, request: ModelRequest, model: str) -> str:
    """Keep one model call's input; returns the digest of its entry.

    The history is a chain of one entry a message, shared by all calls that begin alike; the call's own entry adds
    the system message and the request.
    """
    parent = ""
    for message in prompt.history:
        parent = store.put_blob(session_id, FOLDER, encode_json({"parent": parent, "part": message}))
    options = {
        name: value
        for name in ("schema", "choices", "max_tokens", "temperature", "seed", "stop")
        if (value := getattr(request, name)) not in (None, [])
    }
    entry = {
        "parent": parent,
        "model": model,
        "system": prompt.system,
        "parts": prompt.request,
        "options": options,
    }
    if request.tools:  # the same for many calls
        entry["tools"] = store.put_blob(session_id, FOLDER, encode_json(request.tools))
    return store.put_blob(session_id, FOLDER, encode_json(entry))


def read_sent(store: Store, session_id: str, digest: str) -> dict[str, Any]:
    """`{model, options, messages}`, and `tools` where there were some, of the model call whose entry that is.

    Raises `BlobNotFound`.
    """
    entry = decode_json(store.get_blob(session_id, FOLDER, digest))
    history: list[Message] = []
    parent = entry["parent"]
    while parent:
        link = decode_json(store.get_blob(session_id, FOLDER, parent))
        history.append(link["part"])
        parent = link["parent"]
    prompt = Prompt(system=entry["system"], history=history[::-1], request=entry["parts"])
    sent = {"model": entry["model"], "options": entry["options"], "messages": prompt.messages}
    if "tools" in entry:
        sent["tools"] = decode_json(store.get_blob(session_id, FOLDER, entry["tools"]))
    return sent
