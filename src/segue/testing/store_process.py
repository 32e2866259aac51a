"""Another process with the same store, for the conformance suite: `python -m segue.testing.store_process`.

    <module:callable> <location> append <session> <threads> <count>    say `ready`, wait for a line, then append
                                       control rows in pairs, from that many threads
    <module:callable> <location> write <session>       turn rows one by one, a line `seq` each, until killed
    <module:callable> <location> hold <session>        take the turn lease, say `held`, wait for the end of stdin
    <module:callable> <location> watch <session> <count>    say the seq of every row seen, until that many

It says what it acknowledged on stdout, one line each, flushed.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

from segue.ids import new_id, utc_now
from segue.stores.protocol import Draft, Store


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


def append(store: Store, session_id: str, threads: str, count: str) -> None:
    def work() -> None:
        for _ in range(int(count)):
            say(*store.append(session_id, [control_row(), control_row()]))

    say("ready")
    sys.stdin.readline()
    workers = [threading.Thread(target=work) for _ in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def write(store: Store, session_id: str) -> None:
    lease = store.acquire(session_id, holder="writer", wait=10)
    while True:
        say(*store.append(session_id, [turn_row(), turn_row(), turn_row()], lease=lease))


def hold(store: Store, session_id: str) -> None:
    store.acquire(session_id, holder="the other process", wait=10)
    say("held")
    sys.stdin.read()


def watch(store: Store, session_id: str, count: str) -> None:
    seen = 0
    for batch in store.watch(session_id):
        say(*(row.seq for row in batch))
        seen += len(batch)
        if seen >= int(count):
            return


def say(*words: Any) -> None:
    sys.stdout.write("".join(f"{word}\n" for word in words))
    sys.stdout.flush()


COMMANDS: dict[str, Callable[..., None]] = {"append": append, "write": write, "hold": hold, "watch": watch}


def main(opener: str, location: str, command: str, *arguments: str) -> None:
    store = open_store(opener, location)
    COMMANDS[command](store, *arguments)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
