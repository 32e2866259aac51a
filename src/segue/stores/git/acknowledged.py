"""The small file that says how far a journal is durable: the only thing readers trust.

One line of 96 bytes, overwritten in place by one pwrite after the rows were fdatasynced, itself never synced:
it is derived, and after a power loss it is older than the truth or missing, never newer. Readers take no
lock: a line whose checksum is wrong was read while it was written, and is read again.

A second line of the same kind, the *fence*, is there while a failed append could not be cut off: what lies behind
its position was reported as failed, and nobody may publish it. Only healing looks at it.
"""

from __future__ import annotations

import functools
import os
import re
import time
import zlib

import msgspec

SIZE = 96
NAME = "acknowledged"
_LINE = re.compile(rb"segue1 (\d{12}) (\d{15}) (\d{12}) ([0-9a-f]{8}) ([0-9a-f]{8}) +\n")
_RETRIES = 50


class Position(msgspec.Struct, frozen=True):
    segment: int
    """Seq of the first row of the segment; 0 while there is none."""
    length: int
    """Bytes of that segment that are acknowledged."""
    seq: int
    """Seq of the last acknowledged row, 0 for an empty journal."""
    crc: int
    """CRC-32 of those bytes."""


START = Position(0, 0, 0, 0)


@functools.lru_cache(maxsize=128)
def encode(position: Position) -> bytes:
    numbers = f"{position.segment:012d} {position.length:015d} {position.seq:012d} {position.crc:08x}"
    text = f"segue1 {numbers} ".encode()
    return (text + f"{zlib.crc32(text):08x}".encode()).ljust(SIZE - 1) + b"\n"


def decode(data: bytes) -> Position | None:
    """None when the line is torn, damaged or of another format."""
    found = _LINE.fullmatch(data)
    if found is None or zlib.crc32(data[: found.start(5)]) != int(found[5], 16):
        return None
    return Position(int(found[1]), int(found[2]), int(found[3]), int(found[4], 16))


def read(descriptor: int, expected: Position | None = None) -> Position | None:
    """The position now, or None when the file is empty or damaged; fastest when it is the expected one.

    Raises OSError.
    """
    for attempt in range(_RETRIES):
        data = os.pread(descriptor, SIZE, 0)
        if expected is not None and data == encode(expected):
            return expected
        position = decode(data)
        if position is not None or len(data) < SIZE:
            return position
        time.sleep(0.0002 if attempt else 0)
    return None


def read_fence(descriptor: int) -> Position | None:
    """The position behind which everything was refused, None when nothing was. Raises OSError."""
    return decode(os.pread(descriptor, SIZE, SIZE))


def set_fence(descriptor: int, position: Position | None) -> None:
    """Say durably that what is behind the position was refused and must never be published; None: no more of that.

    A second line of the file. Raises OSError.
    """
    os.pwrite(descriptor, encode(position) if position is not None else b" " * SIZE, SIZE)
    os.fdatasync(descriptor)


def publish(descriptor: int, position: Position) -> None:
    """Raises OSError."""
    os.pwrite(descriptor, encode(position), 0)


def retract(descriptor: int) -> None:
    """Tell every writer that still has this session open that it is gone. Raises OSError."""
    os.ftruncate(descriptor, 0)
