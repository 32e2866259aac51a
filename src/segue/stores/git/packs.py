"""Git's pack files, as far as joining several into one needs them: entries are copied as they are, never unpacked.

A delta names its base by the distance to it or by its id, so the entries of a pack stay valid when all of them move
together. A joined pack therefore costs one copy and a merged index, whatever is in it.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from segue.stores.git.layout import sync_directory
from segue.stores.git.objects import DamagedObject

HEADER = 12
CHECKSUM = 20
_INDEX_HEADER = b"\377tOc\0\0\0\2"
_NAMES = len(_INDEX_HEADER) + 256 * 4
_PIECE = 1 << 20


class Entry(msgspec.Struct, frozen=True, order=True, gc=False):
    id: bytes
    """Binary."""
    offset: int
    crc: int


class Pack(msgspec.Struct, frozen=True):
    path: Path
    """Of the .pack file; its index is beside it."""
    size: int
    index: bytes
    """As it is in its file: a long one is searched, not read."""

    def __len__(self) -> int:
        return int.from_bytes(self.index[_NAMES - 4 : _NAMES])

    def __contains__(self, oid: bytes) -> bool:
        high = self._up_to(oid[0])
        low = self._up_to(oid[0] - 1) if oid[0] else 0
        found = bisect.bisect_left(range(high), oid, low, key=self._name)
        return found < high and self._name(found) == oid

    def ids(self) -> list[bytes]:
        """Of its objects, ascending."""
        return [self._name(number) for number in range(len(self))]

    def entries(self) -> list[Entry]:
        count = len(self)
        numbers = struct.unpack_from(f">{2 * count}L", self.index, _NAMES + count * 20)
        return list(map(Entry, self.ids(), numbers[count:], numbers[:count]))

    def _up_to(self, first_byte: int) -> int:
        """How many ids begin with this byte or a smaller one."""
        start = len(_INDEX_HEADER) + first_byte * 4
        return int.from_bytes(self.index[start : start + 4])

    def _name(self, number: int) -> bytes:
        start = _NAMES + number * 20
        return self.index[start : start + 20]


def read_pack(path: Path) -> Pack | None:
    """What the index of a pack says; None when it is of an old version, over 2 GiB, or not whole. Raises OSError."""
    found = Pack(path, path.stat().st_size, path.with_suffix(".idx").read_bytes())
    is_whole = len(found.index) == _NAMES + len(found) * 28 + 2 * CHECKSUM
    return found if found.index.startswith(_INDEX_HEADER) and is_whole and found.size < 1 << 31 else None


def join_packs(folder: Path, packs: Sequence[Pack]) -> None:
    """Write one pack with all entries of others that share none, durable when it returns.

    Raises DamagedObject, OSError.
    """
    building = folder / f"tmp_pack_{os.getpid()}"  # a name that `git gc` would clean up
    index = building.with_name(f"tmp_idx_{os.getpid()}")
    try:
        with open(building, "wb") as file:
            checksum = _write_pack(file, packs)
            _sync(file)
        with open(index, "wb") as file:
            file.write(_index(packs, checksum))
            _sync(file)
        target = folder / f"pack-{checksum.hex()}.pack"
        os.replace(building, target)
        os.replace(index, target.with_suffix(".idx"))  # last: git looks for indexes
    finally:
        building.unlink(missing_ok=True)
        index.unlink(missing_ok=True)
    sync_directory(folder)


def _write_pack(file: BinaryIO, packs: Sequence[Pack]) -> bytes:
    digest = hashlib.sha1(usedforsecurity=False)
    count = sum(map(len, packs))
    for data in itertools.chain([_header(count)], *map(_entries, packs)):
        digest.update(data)
        file.write(data)
    file.write(digest.digest())
    return digest.digest()


def _entries(pack: Pack) -> Iterator[bytes]:
    """The bytes of a pack's entries, in pieces. Raises DamagedObject when its checksum does not fit, OSError."""
    left = pack.size - HEADER - CHECKSUM
    with open(pack.path, "rb") as file:
        digest = hashlib.sha1(file.read(HEADER), usedforsecurity=False)
        while left > 0 and (data := file.read(min(left, _PIECE))):
            left -= len(data)
            digest.update(data)
            yield data
        if file.read() != digest.digest():
            raise DamagedObject(str(pack.path))


def _header(count: int) -> bytes:
    return struct.pack(">4sLL", b"PACK", 2, count)


def _index(packs: Sequence[Pack], checksum: bytes) -> bytes:
    entries, start = [], 0
    for pack in packs:
        entries += [Entry(entry.id, entry.offset + start, entry.crc) for entry in pack.entries()]
        start += pack.size - HEADER - CHECKSUM
    entries.sort()
    counts = [0] * 256
    for entry in entries:
        counts[entry.id[0]] += 1
    fan_out = [sum(counts[: at + 1]) for at in range(256)]
    data = b"".join(
        (
            _INDEX_HEADER,
            struct.pack(">256L", *fan_out),
            *(entry.id for entry in entries),
            struct.pack(f">{len(entries)}L", *(entry.crc for entry in entries)),
            struct.pack(f">{len(entries)}L", *(entry.offset for entry in entries)),
            checksum,
        )
    )
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
