"""Labels of a lesson that are renamed, merged and removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_teach import LABELS, Person, notes, state, teaching, truth_of

import onebit as ob
from onebit.learner import files
from onebit.service.journal.relabelling import Relabelling, step

__all__ = ["notes"]


def relabel(client: Any, label: str, to: str | None, status: int = 200) -> Any:
    answer = client.post("/relabel", json={"label": label, "to": to})
    assert answer.status_code == status, answer.text
    return answer.json()


def loaded(teacher: Any) -> ob.Learner:
    return files.restore(*files.unpack(state(teacher)))


def told(person: Person, rounds: int, names: dict[str, str]) -> None:
    """Name the true label of items, as a person writes it."""
    person.look()
    for _ in range(rounds):
        truth = truth_of(person.guesses[0]["item"]["text"])
        person.answer(label=names.get(truth, truth))


def guesses(teacher: Any) -> list[str]:
    """What the learner says to all items."""
    items = teacher.items
    return [str(x) for x in loaded(teacher).predict([*map(items.context, range(len(items)))])]


def by_label(person: Person) -> dict[str, int]:
    return {row["label"]: row["known"] for row in person.stats()["by_label"]}


def test_a_renamed_label_keeps_all_that_was_learned(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t", ["froot", "animal", "tool"]) as (teacher, client):
        person = Person(client)
        told(person, 30, {"fruit": "froot"})
        before, guessed = by_label(person), guesses(teacher)
        relabel(client, "froot", "fruit")
        stats = person.stats()
        assert stats["labels"] == LABELS and stats["answers"] == 30
        assert by_label(person) == {"fruit": before.pop("froot"), **before}
        assert loaded(teacher).labels == LABELS
        assert guesses(teacher) == [x.replace("froot", "fruit") for x in guessed]
        person.look()
        assert {label for guess in person.guesses for label, _ in guess["scores"]} == set(LABELS)
        learned = state(teacher)
    # The command of before names the label that was renamed.
    with teaching(notes, tmp_path / "t", ["froot", "animal", "tool"]) as (teacher, client):
        assert teacher.labels == LABELS and state(teacher) == learned
        assert Person(client).stats()["by_label"] == stats["by_label"]
        assert teacher.engine.learner.labels == teacher.engine.replayed().labels
        relabel(client, "fruit", "froot")  # and back
        assert teacher.labels == ["froot", "animal", "tool"]


def test_a_guess_that_was_made_before_is_answered_by_the_new_name(notes, tmp_path) -> None:
    with teaching(notes, tmp_path / "t", ["froot", "animal", "tool"]) as (_, client):
        person, other = Person(client), Person(client, "other")
        guess = person.look()
        held = other.look()
        relabel(client, guess["label"], "new name")
        person.send("answer", id=guess["id"], right=True)
        other.send("answer", id=held["id"], label=guess["label"])  # it has not heard of the name
        assert [answer["said"] for answer in person.stats()["recent"]][1] == "new name"
        assert by_label(person)["new name"] == 2
        assert all(shown["label"] != guess["label"] for shown in person.guesses)


def test_answers_to_a_merged_label_count_for_the_other_one(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t", [*LABELS, "froot"]) as (teacher, client):
        person = Person(client)
        told(person, 20, {})
        told(person, 40, {"fruit": "froot"})
        known = by_label(person)
        person.look()
        person.answer(right=False)
        relabel(client, "froot", "fruit")
        assert by_label(person)["fruit"] == known["fruit"] + known["froot"] > known["fruit"]
        assert loaded(teacher).labels == LABELS
        assert guesses(teacher).count("fruit") > 20
        learned, stats = state(teacher), person.stats()
        relabel(client, "froot", "fruit", 422)
    with teaching(notes, tmp_path / "t", [*LABELS, "froot"]) as (teacher, client):
        assert teacher.labels == LABELS and state(teacher) == learned
        assert Person(client).stats()["by_label"] == stats["by_label"]


def test_items_of_a_removed_label_are_asked_about_again(notes: Path, tmp_path: Path) -> None:
    with teaching(notes, tmp_path / "t", [*LABELS, "froot"]) as (teacher, client):
        person = Person(client)
        told(person, 30, {"fruit": "froot"})
        before = by_label(person)
        relabel(client, "froot", None)
        assert teacher.labels == LABELS and loaded(teacher).labels == LABELS
        assert by_label(person) == {label: before[label] for label in LABELS}
        assert person.stats()["known"] == sum(before.values()) - before["froot"]
        told(person, 60, {})
        told_again = {lesson.item for lesson in teacher._state.lessons if lesson.truth == "fruit"}
        assert told_again & {lesson.item for lesson in list(teacher._state.lessons)[:30]}
        assert client.post("/labels", json={"add": ["froot"]}).status_code == 200  # a new one
        assert by_label(person)["froot"] == 0
        assert teacher.engine.replayed().labels == [*LABELS, "froot"]


@pytest.mark.parametrize(
    ("label", "to", "says"),
    [
        ("nosuch", "x", "there is no label 'nosuch' any more"),
        ("tool", "a\u202eb", "printable"),
        ("tool", "", "printable"),
    ],
)
def test_what_cannot_be_renamed(notes, tmp_path, label, to, says) -> None:
    with teaching(notes, tmp_path / "t") as (teacher, client):
        before = state(teacher)
        assert says in relabel(client, label, to, 422)["detail"]
        relabel(client, "tool", "tool")
        relabel(client, "tool", None)
        assert "two labels at least" in relabel(client, "fruit", None, 422)["detail"]
        assert "two labels at least" in relabel(client, "fruit", "animal", 422)["detail"]
        assert teacher.labels == LABELS[:2] and state(teacher) != before


def test_what_earlier_answers_say() -> None:
    known = ["a", "b", "c"]
    names = Relabelling(
        {
            "relabelled": [
                step(1, 10.0, {"a": "x"}, known),  # renamed
                step(2, 20.0, {"b": "c"}, known),  # merged
                step(3, 30.0, {"d": None}, known),  # removed
            ]
        }
    )
    heard = names.heard
    assert heard(1, 5.0, "a", True, None) == ("x", True, None)
    assert heard(1, 5.0, "a", False, None) == ("x", False, None)
    assert heard(2, 15.0, "a", True, None) == ("a", True, None)  # another label of the same name
    assert heard(1, 5.0, "b", True, None) == ("c", True, None)
    assert heard(1, 5.0, "b", False, None) is None
    assert heard(1, 25.0, "b", False, None) == ("c", False, None)  # revised since
    assert heard(1, 5.0, "b", None, "c") == ("c", None, "c")
    assert heard(1, 5.0, "d", True, None) is None and heard(1, 5.0, "d", False, None) is None
    assert heard(1, 5.0, "d", None, "a") == ("x", None, "x")
    assert heard(1, 5.0, "c", None, "d") == ("c", False, None)
    assert heard(4, 35.0, "a", True, None) == ("a", True, None)
