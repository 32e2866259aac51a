"""`segue sessions list`, `search` and `reindex`: what is found in the index of all sessions."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from segue.cli.progress import bar
from segue.cli.since import Since
from segue.cli.terminal import print_json, show, width
from segue.cli.visible import shortened, visible
from segue.events.json_values import to_json
from segue.fold.summary import SessionInfo
from segue.fold.turns import SETTLED
from segue.index import DAMAGED, Found, Hit
from segue.session.db import default_db

SHOWN = 50
"""Sessions of one listing, unless told."""
TAKEN, LEAST = 45, 16
"""Columns that a listing's other cells and spaces take, beside the id; and those that a title gets at least."""
STATUSES = ["idle", "queued", "running", "suspended", "interrupted", *sorted(SETTLED), DAMAGED]
READING = "reading sessions that changed"


@click.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only those whose last turn is like that.")
@click.option("--agent", help="Only those of this agent.")
@click.option("--tag", help="Only those with this tag.")
@click.option("--archived", is_flag=True, help="Only archived ones.")
@click.option("--pinned", is_flag=True, help="Only pinned ones.")
@click.option("--since", type=Since(), help="Only those active since then: 12h, 7d, 2026-11-30.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="At most so many."
)
@click.option("--all", "everything", is_flag=True, help="Also archived ones and those without a turn.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_(limit: int, archived: bool, pinned: bool, everything: bool, as_json: bool, **filters: Any) -> None:
    """List sessions, the most recently active first."""
    with bar(READING) as progress:
        found = default_db().list_sessions(
            without_turns=everything,
            limit=limit + 1,
            archived=True if archived else None if everything else False,
            pinned=pinned or None,
            progress=progress,
            **filters,
        )
    listed = found[:limit]
    if as_json:
        print_json([_info(info) for info in listed])
    elif listed:
        show(_table(listed))
    else:
        click.echo(_nothing(archived or pinned or any(filters.values())), err=True)
    if len(found) > limit:
        click.echo(f"there are more than these {limit}: --limit shows more", err=True)


@click.command("search")
@click.argument("query", nargs=-1, required=True)
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many sessions."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def search(query: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Find sessions by what was said in them, the best first.

    Looks in messages, in arguments and results of calls and tools, in questions and answers, titles and tags. All
    words have to be in the same one: in "double quotes" one after the other, with a * also longer ones, after a minus
    not at all; the last word may be the beginning of one. Quote it for the shell, as in

        segue sessions search '"the roof" -tiles repair'
    """
    with bar(READING) as progress:
        found = default_db().search_sessions(" ".join(query), limit=limit, progress=progress)
    if as_json:
        print_json([{**_info(one.session), "count": one.count, "hit": to_json(one.hit)} for one in found])
    elif found:
        show(Group(*map(_found, found)), wrap=sys.stdout.isatty())
        click.echo(f"`segue sessions show {found[0].session.session_id}` shows the first one", err=True)
    else:
        click.echo("no session says that", err=True)


@click.command("reindex")
def reindex() -> None:
    """Make the index of all sessions anew.

    Needed only after the folder of a session was replaced by hand by an older state of it: everything else is noticed.
    """
    with bar("reading all sessions") as progress:
        count = default_db().reindex(progress)
    click.echo(f"{count} session{'' if count == 1 else 's'} in the index", err=True)


def _info(info: SessionInfo) -> dict[str, Any]:
    return {name: to_json(getattr(info, name)) for name in SessionInfo.__struct_fields__}


def _nothing(filtered: bool) -> str:
    return (
        "no session is like that" if filtered else "no sessions yet: `segue run module:function` starts one"
    )


def _table(listed: list[SessionInfo]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("session", "status", "turns", "active (UTC)"):
        table.add_column(name, no_wrap=True)
    taken = max(len("session"), *(len(visible(info.session_id)) for info in listed)) + TAKEN
    table.add_column("about", no_wrap=True, overflow="ellipsis", max_width=max(width() - taken, LEAST))
    for info in listed:
        cells = (
            info.session_id,
            info.status,
            str(info.turns),
            _time(info.active_at),
            shortened(info.title, 60),
        )
        table.add_row(*(Text(visible(cell)) for cell in cells))
    return table


def _found(found: Found) -> Group:
    info = found.session
    head = Text(no_wrap=True, overflow="ellipsis").append(visible(info.session_id), style="bold")
    places = "1 place" if found.count == 1 else f"{found.count} places"
    head.append(f"  {_time(info.active_at)}  {places}  {shortened(info.title, 60)}")
    return Group(head, Padding(_hit(found.hit), (0, 0, 0, 4), expand=False))


def _hit(hit: Hit) -> Text:
    """`user: ...`, with what was found standing out."""
    place = hit.name if hit.kind == "message" else f"{hit.kind} {hit.name}".strip()
    line = Text(f"{shortened(place, 40)}: ", style="dim")
    at = 0
    for begin, end in hit.marks:
        line.append(visible(hit.snippet[at:begin]), style="not dim")
        line.append(visible(hit.snippet[begin:end]), style="not dim bold yellow")
        at = end
    return line.append(visible(hit.snippet[at:]), style="not dim")


def _time(moment: str) -> str:
    return visible(moment[:19].replace("T", " "))
