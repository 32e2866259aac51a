"""The growing list of messages: pairing of calls and results, open messages, crash marks, rendering.

Rendered messages are kept; a change at an entry drops what was rendered from there on. So a delta costs O(1),
and reading costs what changed since the last reading. When the history is saved, entries that no row can change any
more, but for a late result, are frozen: they stand before the living ones in `entries`.
"""

from __future__ import annotations

from segue.fold.entries import STITCH, Call, Entry, Message, detached
from segue.fold.frozen import Frozen, Saved, restore_entry


class History:
    def __init__(self) -> None:
        self.frozen = Frozen()
        self.entries: list[Entry] = []
        """The living ones: the last is always among them."""
        self.current: Entry | None = None
        """The message that a tool call joins, as long as it is the last one."""
        self.open: dict[str, Entry | None] = {}
        """Messages without their end, by id. None: opened before a compaction, nothing came since."""
        self.live: dict[str, Entry] = {}
        """Those of them that the running invocation would leave cut off if it died now."""
        self.crash: Entry | None = None
        self.cut: list[Entry] = []
        """The mark of the last crash, and the messages it cut off; a late end takes them away again."""
        self.latest: dict[str, Call] = {}
        """The nearest occurrence of each call id, of living entries: the only one that a result can belong to."""
        self.journaled: set[str] = set()
        """Ids of the calls that this invocation made."""
        self.unsaved = 0
        """The first entry that changed since the history was last saved."""
        self._rendered: list[Message] = []
        self._done = 0
        """How many living entries are in `_rendered`."""

    # --- entries ---

    def append(self, base: Message) -> Entry:
        if self.entries and self.entries[-1].is_open:
            self.touch(self.entries[-1])  # now something follows it
        entry = Entry(base)
        entry.index = len(self.frozen) + len(self.entries)
        self.entries.append(entry)
        return entry

    def remove(self, entry: Entry) -> None:
        place = entry.index - len(self.frozen)
        self.touch(self.entries[max(place - 1, 0)])
        del self.entries[place]
        for later in self.entries[place:]:
            later.index -= 1

    def touch(self, entry: Entry) -> None:
        """The entry changes: forget how it and all after it were rendered, and save them again."""
        if entry.index < self.unsaved:
            self.unsaved = entry.index
        if self._done and entry.index - len(self.frozen) < self._done:
            self._done = entry.index - len(self.frozen)
            del self._rendered[entry.offset :]

    def freeze(self, saved: list[Saved]) -> None:
        """The first living entries, which were saved as these, are left behind."""
        self.frozen.items += saved
        self.enliven(self.entries[len(saved) :])

    def thaw(self) -> None:
        """Make all entries living ones."""
        items, self.frozen = self.frozen.items, Frozen()
        self.enliven([*map(restore_entry, items, range(len(items))), *self.entries])

    def enliven(self, entries: list[Entry]) -> None:
        """These are the living entries now."""
        self.entries, self._rendered, self._done = entries, [], 0
        self.latest = {call.id: call for entry in entries for call in entry.calls}

    # --- messages ---

    def start(self, message_id: str, role: str) -> None:
        self.current = self.open[message_id] = self.live[message_id] = self.append(
            {"role": role, "content": ""}
        )

    def continued(self, message_id: str) -> Entry:
        """The new message for text that goes on after a compaction."""
        self.start(message_id, "assistant")
        return self.entries[-1]

    def end(self, message_id: str) -> Entry | None:
        entry = self.open.pop(message_id, None)
        self.live.pop(message_id, None)
        if entry is not None and self.crash is not None:
            self._mend(self.crash, entry)
        return entry

    def _mend(self, crash: Entry, entry: Entry) -> None:
        self.cut = [cut for cut in self.cut if cut is not entry]
        if not self.cut:
            self.remove(crash)
            self.crash = None

    def end_all(self) -> None:
        """A new invocation: what is open stays as it is, a crash mark stays for good."""
        self.current = self.crash = None
        self.open, self.live, self.cut, self.journaled = {}, {}, [], set()

    def died(self) -> None:
        """Mark the place when the invocation left a message open; one mark for each crash."""
        if self.live:
            self.cut = list(self.live.values())
            self.live = {}
            self.crash = self.append({"role": "user", "content": STITCH})

    # --- calls ---

    def open_at_end(self, call_id: str) -> Call | None:
        """The occurrence that nothing in the conversation has left behind yet."""
        call = self.latest.get(call_id)
        return call if call is not None and call.result is None and call.entry is self.entries[-1] else None

    def joinable(self) -> Entry | None:
        """The message that the next call joins: the current one while it is an assistant's and the last."""
        current = self.current
        if current is None or current is not self.entries[-1]:
            return None
        return None if current.results or current.base["role"] != "assistant" else current

    def repeats(self, call_id: str) -> bool:
        """Whether a call of that id is the one that is open already: said again in its own message, or by
        the invocation that resumes it."""
        call = self.latest.get(call_id)
        if call is None or call.entry is not self.entries[-1]:
            return False
        return call.entry is self.joinable() or (call.result is None and call_id not in self.journaled)

    def add_call(self, wire: Message) -> Call:
        entry = self.joinable()
        if entry is None:
            entry = self.current = self.append({"role": "assistant", "content": ""})
        self.journaled.add(wire["id"])
        return self.attach(entry, wire)

    def attach(self, entry: Entry, wire: Message) -> Call:
        call = Call(entry, wire)
        self.touch(entry)
        entry.add_call(call)
        self.latest[call.id] = call
        return call

    def waiting(self, call_id: str) -> Call | None:
        """The occurrence that a result of that id would answer. An answered one hides those before it."""
        if call_id not in self.latest and self.frozen.waits_for(call_id):
            self.thaw()
        call = self.latest.get(call_id)
        return call if call is not None and call.result is None else None

    def answer(self, call: Call, result: Message) -> None:
        call.result, call.approval = result, None
        self.touch(call.entry)
        call.entry.add_result(call)

    def ask(self, call: Call, approval: Message | None) -> None:
        """The call waits for an approval, or with None no longer does."""
        call.approval = approval
        self.unsaved = min(self.unsaved, call.entry.index)

    def pending(self) -> list[Call]:
        """Calls whose approval waits, in call order: only those still open at the end."""
        last = self.entries[-1].calls if self.entries else ()
        return [call for call in last if call.approval is not None]

    # --- reading ---

    def __len__(self) -> int:
        self._render()
        return self.frozen.count() + len(self._rendered)

    def answered_length(self) -> int:
        self._render()
        last = self.entries[-1] if self.entries else None
        living = last.offset if last is not None and last.is_open else len(self._rendered)
        return self.frozen.count() + living

    def messages(self, start: int) -> list[Message]:
        """The messages from a position on (negative: counted from the end). All theirs to change."""
        self._render()
        frozen = self.frozen.count()
        if start < 0:
            start = max(start + frozen + len(self._rendered), 0)
        if start < frozen:
            return [*self.frozen.messages(start), *map(detached, self._rendered)]
        return [detached(message) for message in self._rendered[start - frozen :]]

    def _render(self) -> None:
        rendered, end = self._rendered, len(self.entries) - 1
        for index in range(self._done, len(self.entries)):
            entry = self.entries[index]
            entry.offset = len(rendered)
            rendered += entry.render(last=index == end)
        self._done = len(self.entries)

    def copy(self) -> History:
        """An equal history that can grow apart from this one."""
        new, calls = History(), dict[int, Call]()
        new.frozen = self.frozen.copy()
        new.entries = [entry.copy(calls) for entry in self.entries]
        twins: dict[int, Entry] = {id(old): twin for old, twin in zip(self.entries, new.entries, strict=True)}
        new.current = twins.get(id(self.current))
        new.crash = twins.get(id(self.crash))
        new.open = {key: twins.get(id(entry)) for key, entry in self.open.items()}
        new.live = {key: twins[id(entry)] for key, entry in self.live.items()}
        new.cut = [twins[id(entry)] for entry in self.cut]
        new.latest = {key: calls[id(call)] for key, call in self.latest.items()}
        new.journaled = set(self.journaled)
        new._rendered, new._done = self._rendered[:], self._done
        return new
