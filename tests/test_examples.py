"""The programs in examples/: they show, also with small numbers, what the docs say of them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import onebit as ob
from onebit.core.jit import COMPILED

FOLDER = Path(__file__).parent.parent / "examples"
plain_only = pytest.mark.skipif(COMPILED, reason="these learners take long to compile")


def example(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers_by_name(text):
    """The lines of a table: a name, and two spaces or more before its numbers."""
    rows = (re.match(r"(\w[^.]*?)  +(\d[\d. ]*)", line) for line in text.splitlines())
    return {row[1]: [float(number) for number in row[2].split()] for row in rows if row}


def test_every_example_is_tested_here_and_in_the_docs():
    names = {path.stem for path in FOLDER.glob("*.py")}
    page = (FOLDER.parent / "docs" / "examples.md").read_text()
    assert all(any(key.startswith(f"test_{name}") for key in globals()) for name in names)
    assert all(f"python examples/{name}.py" in page for name in names)


def test_robot_runs(capsys):
    example("robot").main(minutes=0.2)
    assert all(len(numbers) == 5 for numbers in numbers_by_name(capsys.readouterr().out).values())


@pytest.mark.thorough
def test_robot_recovers_after_the_actions_swap(capsys):
    example("robot").main(minutes=10 if COMPILED else 2)
    told = capsys.readouterr().out
    errors = {name: numbers[:4] for name, numbers in numbers_by_name(told).items()}
    assert list(errors) == ["OneBit", "Confidit", "Confidit, half-life 10 min", "Confidit, alarm"]
    for first, second, third, fourth in errors.values():
        assert second < 0.75 * first and third > 1.5 * second and fourth < 0.85 * third
    assert errors["OneBit"][0] < min(errors[name][0] for name in [*errors][1:])
    if COMPILED:  # 6,000 rounds are enough for the alarm
        minutes = re.findall(r"alarm after ([\d.]+) minutes", told)
        assert len(minutes) == 1 and 5 < float(minutes[0]) < 6.5
        assert errors["Confidit, alarm"][2] < 0.95 * errors["Confidit"][2]


@plain_only
@pytest.mark.thorough
def test_apprentice_is_promoted_though_it_is_killed(capsys):
    example("apprentice").main(rounds=120)
    told = capsys.readouterr().out
    speakers = re.findall(r"^(.*): (.*) speaks$", told, re.MULTILINE)
    assert speakers == [
        ("The first days", "the old system"),
        ("Proved, and promoted by rule", "tickets"),
        ("The model speaks", "tickets"),
        ("Promoted by hand", "careful"),
        ("Undone", "tickets"),
    ]
    assert "killed 2 times" in told and "the same bytes for 2 learners" in told
    shadows = re.findall(r"^  (\w+): .* after (\d+) rounds$", told, re.MULTILINE)
    names = ["careful", "tickets", "careful", "careful", "tickets", "careful"]
    assert [name for name, _ in shadows] == names


@plain_only
def test_many_labels_are_found_in_bounded_memory(capsys):
    many = example("many_labels")
    many.main(labels=20, rounds=400, words=200)
    told = capsys.readouterr().out
    [unlearned] = re.findall(r"always the commonest label: ([\d.]+) % wrong", told)
    rows = numbers_by_name(told)
    assert list(rows) == ["OneBit", "UCWL", "Confidit"]
    for error, last_tenth, *_ in rows.values():
        assert last_tenth < 0.8 * error and error < 0.85 * float(unlearned)
    X, y = many.short_texts(400, 20, 200, 0)
    learner, sizes = ob.UCWL(20), []
    for _ in range(2):
        ob.simulate(learner, X, y)
        sizes.append(many.size_of_file(learner))
    table = 4e-6 * learner.planes * 200 * 20  # MB, of float32
    assert sizes[1] < 1.02 * sizes[0] and sizes[1] < table + 0.01


@plain_only
@pytest.mark.parametrize("rounds", [240, 250, 300])  # whole passes over the documents, and not
def test_ten_million_rounds_keep_the_error_low_and_the_weights_small(capsys, monkeypatch, rounds):
    many = example("ten_million_rounds")
    monkeypatch.setattr(many, "DOCUMENTS", 80)
    many.main(rounds=rounds, parts=3)
    told = capsys.readouterr().out
    parts = re.findall(r"^ +([\d,]+) +([\d.]+)$", told, re.MULTILINE)
    ends, errors = np.array([[float(cell.replace(",", "")) for cell in row] for row in parts]).T
    assert len(ends) == 3 and rounds <= ends[-1] < rounds + 4
    assert errors[0] > 20 and errors[-1] < 0.15 * errors[0]
    [largest] = re.findall(r"the largest weight is ([\d.]+)", told)
    assert 0 < float(largest) < 10
