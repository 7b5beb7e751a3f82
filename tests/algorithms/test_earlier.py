"""OneBits of versions that took one label to be right, written by earlier_onebit/keep.py."""

import json
from importlib import util
from pathlib import Path

import numpy as np
import pytest

import onebit as ob
from onebit.learner import files

FOLDER = Path(__file__).parent / "earlier_onebit"


def contexts(name):
    spec = util.spec_from_file_location("keep", FOLDER / "keep.py")
    keep = util.module_from_spec(spec)
    spec.loader.exec_module(keep)
    return keep.contexts(name == "dense")


@pytest.mark.parametrize("name", ["sparse", "dense"])
def test_a_file_of_before_is_refused_with_what_to_do(name):
    with pytest.raises(ValueError, match=r"saved by an earlier version.*train it again, or build"):
        ob.load(FOLDER / f"{name}.onebit")


@pytest.mark.parametrize("name", ["sparse", "dense"])
def test_in_a_service_it_answers_as_before_and_learns_on(name, tmp_path):
    X, y = contexts(name)
    learner = files.taken_over(*files.read(FOLDER / f"{name}.onebit"), is_foreign=True)
    said = json.loads((FOLDER / "said.json").read_text())[name]
    np.testing.assert_allclose(learner.scores(X[:20]), said, atol=1e-5)
    assert learner.one_right == pytest.approx(1)
    for x, truth in zip(X, y, strict=True):
        decision = learner.decide(x)
        learner.learn(decision, right=decision.place == truth)
    learner.save(tmp_path / "m")
    again = ob.load(tmp_path / "m")
    assert again.scores(X).tolist() == learner.scores(X).tolist()


def test_files_of_this_version_are_not_changed(tmp_path):
    ob.OneBit(3, seed=5).save(tmp_path / "m")
    learner = files.taken_over(*files.read(tmp_path / "m"))
    assert files.pack(*files.dump(learner)) == files.pack(*files.dump(ob.OneBit(3, seed=5)))
