"""One run's system calls as operations on a disk: what was done to which file, and when it became durable.

What the recording cannot see is what a program writes through shared memory. Segue writes nothing that way; SQLite's
`-shm` files are, and are worthless after a crash. Any other such file fails the recording.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from segue.stores.git.acknowledged import decode as decode_position
from tests.crash.disk import Disk, Link, Node, Op, Rename, Truncate, Unlink, Write
from tests.crash.kills import CALLS
from tests.crash.tracing import Call, calls

TRACED = ",".join(f"?{name}" for name in (*CALLS, "openat", "open", "creat", "lseek", "mmap", "fallocate"))
OPTIONS = ("-xx", "-s", str(1 << 26), "-e", f"trace={TRACED}")
_RESULT = re.compile(r"(.*)\)\s+= (-?\w+).*")
_DESCRIPTOR = re.compile(r"(-?\w+)<([^>]*)>(?:\(deleted\))?")


@dataclass
class Open:
    """An open file of the program."""

    node: Node
    offset: int
    append: bool


@dataclass
class Recording:
    """Everything that happened, at times that count the calls as they returned."""

    home: Path
    """Where the home was while it was recorded."""
    disk: Disk
    ops: list[Op] = field(default_factory=list)
    printed: list[tuple[int, bytes]] = field(default_factory=list)
    """When what was written to standard output."""
    published: list[tuple[int, str, int]] = field(default_factory=list)
    """When readers of which folder could see rows up to which seq."""
    changed: list[int] = field(default_factory=list)
    """When something was done to the disk."""
    learned: list[int] = field(default_factory=list)
    """When something became durable, or somebody was shown something."""
    _open: dict[str, Open] = field(default_factory=dict)

    def load(self, log: Path) -> None:
        for time, call in enumerate(calls(log), 1):
            if call.succeeded and (handler := _HANDLERS.get(call.name)) is not None:
                ops, shown = len(self.ops), len(self.printed) + len(self.published)
                matched = _RESULT.fullmatch(call.text)
                assert matched is not None, call.text[:200]
                synced = handler(self, time, call, matched[1].split(", "), matched[2])
                if len(self.ops) > ops:
                    self.changed.append(time)
                if synced or len(self.printed) + len(self.published) > shown:
                    self.learned.append(time)

    def rows(self, until: int, folder: str) -> list[tuple[int, str, bool]]:
        """Seq, id, and whether its append ends with it, of each row written to a session by then."""
        history = self.home / "sessions" / folder / "history"
        written = b"".join(
            op.data
            for op in self.ops
            if isinstance(op, Write) and op.time <= until and op.path.parent == history
        )
        rows = [(json.loads(line), not line.endswith(b" ")) for line in written.split(b"\n")[:-1]]
        return [(row["seq"], row["id"], ends) for row, ends in rows]

    def seen(self, until: int, folder: str) -> int:
        """Up to which seq readers of a session could see its rows by then; 0 when nothing new was published."""
        return max((seq for time, name, seq in self.published if time <= until and name == folder), default=0)

    def output(self, until: int) -> bytes:
        return b"".join(data for time, data in self.printed if time <= until)

    # --- the calls ---------------------------------------------------------------------------------------------

    def _opened(self, time: int, call: Call, words: list[str], result: str) -> None:
        path, flags, matched = self._path(words[0], words[1]), words[2], _DESCRIPTOR.fullmatch(result)
        number = result.partition("<")[0]
        self._open.pop(number, None)
        if path is None:
            return
        node = self.disk.find(path)
        if node is None:
            assert "O_CREAT" in flags, (path, matched)
            node = Node(path=path)
            self._do(Link(time, call.ended, path, (self.disk.folder(path),), node))
        elif "O_TRUNC" in flags and node.size:
            self._do(Truncate(time, call.ended, path, (node,), 0))
        if "O_RDONLY" not in flags:
            self._open[number] = Open(node, 0, "O_APPEND" in flags)

    def _written(self, time: int, call: Call, words: list[str], result: str) -> None:
        name, path = self._described(words[0])
        if name == str(self.home.with_name("strace.out")):
            self.printed.append((time, _bytes(words[1])[: int(result)]))
        if path is None or (file := self._open.get(words[0].partition("<")[0])) is None:
            return
        data = _bytes(words[1])[: int(result)]
        offset = file.node.size if file.append else file.offset
        self._do(Write(time, call.ended, path, (file.node,), offset, data))
        file.offset = offset + len(data)

    def _written_at(self, time: int, call: Call, words: list[str], result: str) -> None:
        _, path = self._described(words[0])
        if path is None or (node := self.disk.find(path)) is None:
            return
        data = _bytes(words[1])[: int(result)]
        self._do(Write(time, call.ended, path, (node,), int(words[3]), data))
        if path.name == "acknowledged" and (position := decode_position(data)) is not None:
            self.published.append((time, path.parent.name, position.seq))

    def _moved(self, time: int, call: Call, words: list[str], result: str) -> None:
        if (file := self._open.get(words[0].partition("<")[0])) is not None:
            file.offset = int(result)

    def _synced(self, time: int, call: Call, words: list[str], result: str) -> bool:
        """What was done before the call began is durable when it returns."""
        _, path = self._described(words[0])
        node = None if path is None else self.disk.find(path)
        changed = False
        for op in self.ops if node is not None else ():
            if op.durable is None and node in op.nodes and op.ended <= call.begun:
                op.durable, changed = time, True
        return changed

    def _truncated(self, time: int, call: Call, words: list[str], result: str) -> None:
        path = self._path("", words[0]) if words[0].startswith('"') else self._described(words[0])[1]
        if path is not None and (node := self.disk.find(path)) is not None:
            self._do(Truncate(time, call.ended, path, (node,), int(words[1])))

    def _made_folder(self, time: int, call: Call, words: list[str], result: str) -> None:
        path = self._path(*(words[:2] if call.name == "mkdirat" else ("", words[0])))
        if path is not None:
            node = Node(path=path, entries={})
            self._do(Link(time, call.ended, path, (self.disk.folder(path),), node))

    def _removed(self, time: int, call: Call, words: list[str], result: str) -> None:
        path = self._path(*(words[:2] if call.name == "unlinkat" else ("", words[0])))
        if path is not None:
            self._do(Unlink(time, call.ended, path, (self.disk.folder(path),)))

    def _renamed(self, time: int, call: Call, words: list[str], result: str) -> None:
        at = call.name != "rename"
        source, target = (
            (self._path(*words[0:2]), self._path(*words[2:4]))
            if at
            else (self._path("", words[0]), self._path("", words[1]))
        )
        if source is not None and target is not None:
            folders = (self.disk.folder(source), self.disk.folder(target))
            node = self.disk.find(source)
            assert node is not None, source
            self._do(Rename(time, call.ended, target, folders, source, node))

    def _linked(self, time: int, call: Call, words: list[str], result: str) -> None:
        at = call.name == "linkat"
        source, target = (
            (self._path(*words[0:2]), self._path(*words[2:4]))
            if at
            else (self._path("", words[0]), self._path("", words[1]))
        )
        if source is not None and target is not None:
            node = self.disk.find(source)
            assert node is not None, source
            self._do(Link(time, call.ended, target, (self.disk.folder(target),), node))

    def _mapped(self, time: int, call: Call, words: list[str], result: str) -> None:
        _, path = self._described(words[4])
        if path is not None and "PROT_WRITE" in words[2] and words[3].startswith("MAP_SHARED"):
            assert path.name.endswith("-shm"), f"{path} is written through shared memory, which no log shows"

    def _unseen(self, time: int, call: Call, words: list[str], result: str) -> None:
        assert self._described(words[0])[1] is None, f"the recording does not understand {call.name}"

    def _do(self, op: Op) -> None:
        self.ops.append(op)
        self.disk.apply(op)

    def _described(self, word: str) -> tuple[str, Path | None]:
        """What a descriptor is open on, and that as a path when it is part of the home."""
        matched = _DESCRIPTOR.fullmatch(word)
        if matched is None:
            return "", None
        name = _text(matched[2])
        return name, self._inside(name)

    def _path(self, folder: str, word: str) -> Path | None:
        text = _text(word.strip('"'))
        if not text.startswith("/") and (matched := _DESCRIPTOR.fullmatch(folder)) is not None:
            text = f"{_text(matched[2])}/{text}"
        return self._inside(text)

    def _inside(self, name: str) -> Path | None:
        path = Path(name)
        return path if self.home == path or self.home in path.parents else None


Handler = Callable[[Recording, int, Call, list[str], str], bool | None]
_HANDLERS: dict[str, Handler] = {
    "openat": Recording._opened,
    "write": Recording._written,
    "pwrite64": Recording._written_at,
    "lseek": Recording._moved,
    "fsync": Recording._synced,
    "fdatasync": Recording._synced,
    "ftruncate": Recording._truncated,
    "truncate": Recording._truncated,
    "mkdir": Recording._made_folder,
    "mkdirat": Recording._made_folder,
    "unlink": Recording._removed,
    "unlinkat": Recording._removed,
    "rmdir": Recording._removed,
    "rename": Recording._renamed,
    "renameat": Recording._renamed,
    "renameat2": Recording._renamed,
    "link": Recording._linked,
    "linkat": Recording._linked,
    "mmap": Recording._mapped,
    **dict.fromkeys(("writev", "pwritev", "fallocate", "sync_file_range"), Recording._unseen),
}


def _bytes(word: str) -> bytes:
    return bytes.fromhex(word.strip('"').replace("\\x", ""))


def _text(escaped: str) -> str:
    """A path as strace prints it: all of it in hexadecimal, or none when it is no path."""
    return bytes.fromhex(escaped.replace("\\x", "")).decode() if escaped.startswith("\\x") else escaped
