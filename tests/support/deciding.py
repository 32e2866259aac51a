"""A process that decides on one call after another, as soon as it is told to: `python deciding.py SESSION NUMBER`."""

from __future__ import annotations

import sys

from segue.errors import AlreadyDecided
from segue.session import decisions
from segue.session.db import default_db


def main(session: str, number: int) -> None:
    journal = default_db().journal(session)
    print("ready", flush=True)
    for line in sys.stdin:
        call = line.strip()
        try:
            if number % 2:
                decisions.approve(journal, call, approver=str(number))
            else:
                decisions.deny(journal, call, approver=str(number))
        except AlreadyDecided as error:
            print(f"told {error.decision}", flush=True)
        else:
            print(f"won {'granted' if number % 2 else 'denied'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
