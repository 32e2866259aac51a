"""Messages that a user sends into a running turn: they reach it where every call has its result."""

from __future__ import annotations

from segue.events.facts import Event, MessageDelta, MessageEnd, MessageStart
from segue.fold.submissions import Submission, Submissions
from segue.session.turn import Turn


async def delivered(turn: Turn) -> list[str]:
    """Put what users sent to this turn's route since the last time into the conversation, and give the texts."""
    with turn.journal.viewing(Submissions) as submissions:
        sent = [one for one in submissions.pending if one.mode == "steer" and one.agent_id == turn.agent_id]
    if sent:
        await turn.append_async(*(row for one in sent for row in _message(one)))
    return [str(one.reason.get("input", "")) for one in sent]


def _message(sent: Submission) -> list[Event]:
    message_id = sent.turn_id
    return [
        MessageStart(message_id=message_id, role="user"),
        MessageDelta(
            message_id=message_id, delta={"type": "text", "text": str(sent.reason.get("input", ""))}
        ),
        MessageEnd(message_id=message_id),
    ]
