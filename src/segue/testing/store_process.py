"""Another process with the same store, for the conformance suite: `python -m segue.testing.store_process`.

    <module:callable> <location> contend <session> <name> <threads> <appends>    say `ready`, wait for a line, then do
                                       that much of `segue.testing.contention`
    <module:callable> <location> write <session>       turn rows one by one, a line `seq` each, until killed
    <module:callable> <location> hold <session> [<titles>]    take the turn lease, say `held`, then so many titles as
                                       they are set, and wait for the end of stdin
    <module:callable> <location> watch <session> <count>    say the seq of every row seen, until that many
    <module:callable> <location> follow <session>      say `ready`, watch to the last row, say what is folded from it
    <module:callable> <location> look <session> <threads>    say `ready`, read until the last row is there, say what
                                       was wrong

It says what it acknowledged on stdout, one line each, flushed.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from segue.ids import new_id, utc_now
from segue.stores.protocol import Draft, Store
from segue.testing import contention


def control_row(payload: bytes = b'{"title":"a title"}') -> Draft:
    """A row that anyone may append."""
    return Draft(new_id("evt"), "conformance", "SESSION_UPDATED", payload, utc_now())


def turn_row(payload: bytes = b'{"message_id":"m1","text":"a word"}') -> Draft:
    """A row that needs the turn lease."""
    return Draft(new_id("evt"), "conformance", "MESSAGE_DELTA", payload, utc_now())


def open_store(opener: str, location: str) -> Store:
    """`module:callable` called with the location."""
    module, _, name = opener.partition(":")
    store: Store = getattr(importlib.import_module(module), name)(location)
    return store


def contend(store: Store, session_id: str, name: str, threads: str, appends: str) -> None:
    say("ready")
    sys.stdin.readline()
    contention.work(store, session_id, name, int(threads), int(appends), write_out)


def write(store: Store, session_id: str) -> None:
    lease = store.acquire(session_id, holder="writer", wait=10)
    while True:
        say(*store.append(session_id, [turn_row(), turn_row(), turn_row()], lease=lease))


def hold(store: Store, session_id: str, titles: str = "0") -> None:
    store.acquire(session_id, holder="the other process", wait=10)
    say("held")
    for row in itertools.islice(itertools.chain.from_iterable(store.watch(session_id)), int(titles)):
        say(row.payload["title"])
    sys.stdin.read()


def watch(store: Store, session_id: str, count: str) -> None:
    seen = 0
    for batch in store.watch(session_id):
        say(*(row.seq for row in batch))
        seen += len(batch)
        if seen >= int(count):
            return


def follow(store: Store, session_id: str) -> None:
    say("ready")
    rows = contention.watch(store, session_id)
    say(json.dumps({"seqs": [row.seq for row in rows], **contention.folded(rows)}))


def look(store: Store, session_id: str, threads: str) -> None:
    say("ready")
    with ThreadPoolExecutor(int(threads)) as pool:
        lookers = [pool.submit(contention.look, store, session_id) for _ in range(int(threads))]
        say(json.dumps([looker.result() for looker in lookers]))


def say(*words: Any) -> None:
    write_out("".join(f"{word}\n" for word in words))


def write_out(text: str) -> None:
    """Whole lines at once, from any thread."""
    with _writing:
        sys.stdout.write(text)
        sys.stdout.flush()


_writing = threading.Lock()
COMMANDS: dict[str, Callable[..., None]] = {
    "contend": contend,
    "write": write,
    "hold": hold,
    "watch": watch,
    "follow": follow,
    "look": look,
}


def main(opener: str, location: str, command: str, *arguments: str) -> None:
    store = open_store(opener, location)
    COMMANDS[command](store, *arguments)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
