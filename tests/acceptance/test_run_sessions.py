"""`segue run`: which session a turn goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Program


SEEN = {"contains": "the first answer", "reply": "I remember."}


def session_of(stderr: str) -> str:
    return stderr.splitlines()[0].removeprefix("session: ")


def test_a_second_run_with_the_id_sees_the_first_exchange(segue: Program) -> None:
    first = segue("run", "desk:reply", "hello", "--model", segue.script("the first answer"))
    remembering = segue.script(rules=[SEEN], default="I know nothing.")
    second = segue(
        "run", "desk:reply", "and now?", "--model", remembering, "--session", session_of(first.stderr)
    )
    assert second.stdout == "I remember.\n"


def test_a_run_without_an_id_sees_nothing_of_another_session(segue: Program) -> None:
    segue("run", "desk:reply", "hello", "--model", segue.script("the first answer"))
    third = segue(
        "run", "desk:reply", "and now?", "--model", segue.script(rules=[SEEN], default="I know nothing.")
    )
    assert third.stdout == "I know nothing.\n"


def test_the_conversation_is_one_exchange_a_run(segue: Program) -> None:
    segue("run", "desk:reply", "hello", "--model", segue.script("one"), "--session", "s")
    segue("run", "desk:outer", "more", "--model", segue.script("two", "three"), "--session", "s")
    assert segue.json("sessions", "show", "s", "--json")["messages"] == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": "twothree"},
    ]


def test_session_creates_one_under_an_id_that_is_new(segue: Program) -> None:
    done = segue("run", "desk:plain", "hi", "--session", "my-session.1")
    assert (done.returncode, session_of(done.stderr)) == (0, "my-session.1")


def test_resume_continues_by_the_beginning_of_an_id(segue: Program) -> None:
    segue("run", "desk:facts", "--arg", "n=1", "--session", "letters_april")
    done = segue("run", "desk:facts", "--arg", "n=2", "--resume", "lett")
    assert session_of(done.stderr) == "letters_april"


def test_resume_of_an_unknown_id_creates_nothing_and_suggests_a_near_one(segue: Program) -> None:
    segue("run", "desk:facts", "--arg", "n=1", "--session", "letters_april")
    done = segue("run", "desk:facts", "--arg", "n=2", "--resume", "leters_april")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "segue: there is no session 'leters_april': did you mean letters_april?\n"
    assert [listed["session_id"] for listed in segue.json("sessions", "list", "--all", "--json")] == [
        "letters_april"
    ]


def test_resume_of_an_ambiguous_beginning_names_the_candidates(segue: Program) -> None:
    for session_id in ("letters_april", "letters_may"):
        segue("run", "desk:facts", "--arg", "n=1", "--session", session_id)
    done = segue("run", "desk:facts", "--arg", "n=2", "--resume", "letters")
    assert done.returncode == 2
    assert done.stderr == "segue: 'letters' is the beginning of 2 sessions: letters_april, letters_may\n"


def test_continue_takes_the_session_that_was_active_last(segue: Program) -> None:
    for session_id in ("b_later", "a_first", "b_later"):
        segue("run", "desk:facts", "--arg", "n=1", "--session", session_id)
    assert session_of(segue("run", "desk:facts", "--arg", "n=2", "-c").stderr) == "b_later"


def test_continue_without_any_session_is_an_error(segue: Program) -> None:
    done = segue("run", "desk:facts", "--arg", "n=2", "--continue")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no session to continue" in done.stderr


def test_only_one_way_to_name_a_session_can_be_given(segue: Program) -> None:
    done = segue("run", "desk:facts", "--arg", "n=2", "--session", "a", "-c")
    assert (done.returncode, done.stderr) == (
        2,
        "segue: --session, --resume and --continue exclude each other\n",
    )


def test_an_id_that_is_a_path_is_refused(segue: Program) -> None:
    done = segue("run", "desk:facts", "--arg", "n=2", "--session", "../outside")
    assert (done.returncode, done.stdout) == (2, "")
    assert not (segue.home / "outside").exists()


def test_the_docstring_reaches_the_model(segue: Program) -> None:
    model = segue.script(
        rules=[{"contains": "You are the reading desk.", "reply": "It did."}], default="It did not."
    )
    assert segue("run", "desk:reply", "hello", "--model", model).stdout == "It did.\n"


def test_nested_calls_are_recorded_under_their_caller(segue: Program) -> None:
    segue("run", "desk:outer", "x", "--model", segue.script("a", "b"), "--session", "s")
    nodes = segue.json("sessions", "graph", "s", "--json")["nodes"]
    names = {node["id"]: node["name"] for node in nodes} | {"": ""}
    assert [(node["kind"], node["name"], names[node["called_by"]], node["status"]) for node in nodes] == [
        ("function", "desk:outer", "", "completed"),
        ("function", "desk:inner", "desk:outer", "completed"),
        ("model", "scripted:answers.json", "desk:inner", "completed"),
        ("function", "desk:inner", "desk:outer", "completed"),
        ("model", "scripted:answers.json", "desk:inner", "completed"),
    ]
