"""Recipes: what is written is read back; what is wrong is said in one line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit as ob
from onebit import algorithms
from onebit.registry import recipes
from onebit.registry.recipes import LARGEST, Found, Recipe, read_recipe

FOUND = Found("mine", 0.125, 1000, 3, 64, "shuffled", 7, "0.1.0")


@pytest.mark.parametrize("name", algorithms.by_settings())
def test_every_learner_comes_back_with_all_its_settings(tmp_path, name):
    learner = getattr(ob, name)
    recipe = Recipe(learner, learner(2).settings, ("log_counts", "hash:64"), FOUND)
    recipe.save(tmp_path / "r.toml")
    assert read_recipe(tmp_path / "r.toml") == recipe
    made = recipe.make(["a", "b"], seed=3, dtype="float64")
    assert type(made) is learner and (made.labels, made.seed) == (["a", "b"], 3)
    assert made.settings == recipe.settings and made.dtype == "float64"


@pytest.mark.parametrize("name", algorithms.by_settings())
def test_none_is_written_only_where_it_is_the_default(name):
    """So a recipe, which leaves None out, says the same."""
    learner = getattr(ob, name)
    for key, value in learner(2).settings.items():
        assert value is not None or learner.declared[key].default is None, key


@given(
    st.floats(1e-300, 1),
    st.floats(1e-300, 1e300),
    st.text(),
    st.floats(0, 1),
    st.integers(0, 2**62),
)
@settings(deadline=None, database=None, max_examples=40)
def test_any_number_and_any_text_come_back(tmp_path_factory, gamma, C, data, error, seed):
    path = tmp_path_factory.mktemp("r") / "r.toml"
    found = Found(data, error, 1, 1, 1, "given", seed, "0.1.0")
    recipe = Recipe(ob.BPA, {"gamma": gamma, "variant": "PA-I", "C": C}, (), found)
    recipe.save(path)
    read = read_recipe(path)
    assert read == recipe and read.settings["C"] == C


def test_names_of_files_and_data_cannot_break_the_file(tmp_path):
    odd = Found("\ud800\x7f\"'\\\n]", 0.5, 1, 1, 1, "given", 0, "0.1.0")
    path = tmp_path / 'a\nlearner = "AROW".toml'
    Recipe(ob.UCWL, {}, (), odd).save(path)
    assert read_recipe(path).learner is ob.UCWL
    assert read_recipe(path).found.data == "?\x7f\"'\\\n]"


def test_a_recipe_by_hand(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('learner = "ucwl"\n[settings]\nC = 2\n')
    recipe = ob.read_recipe(path)
    assert recipe.settings == {"eta": 0.75, "C": 2.0, "k": 1.0}  # the rest are the defaults
    assert (recipe.learner, recipe.prepare, recipe.found) == (ob.UCWL, (), None)
    recipe.save(path)
    assert path.read_text().startswith('learner = "UCWL"\n')
    path.write_text('learner = "Perceptron"\n')
    assert ob.read_recipe(path).settings == {}
    assert ob.read_recipe(path).make(3).labels == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", 'learner = "UCWL"'),
        ("learner = UCWL", "not TOML"),
        ('learner = "banditro"', "no learner 'banditro'; did you mean 'Banditron'?"),
        ('learner = "Xyz"', "no learner 'Xyz'; there are AROW"),
        ("learner = 3", "learner must be text in quotes, not 3"),
        ('learner = "UCWL"\nlabels = ["a"]', "unknown 'labels'; a recipe has learner, prepare"),
        ('learner = "UCWL"\nprepare = "binary"', "prepare must be a list"),
        ('learner = "UCWL"\nprepare = [3]', "prepare must be a list of names"),
        ('learner = "UCWL"\nprepare = ["tf"]', "no step 'tf'"),
        ('learner = "UCWL"\nsettings = 3', "settings must be a table, not 3"),
        (
            'learner = "UCWL"\n[settings]\ngamma = 1',
            "no setting 'gamma' for UCWL; it has form, eta, C, k",
        ),
        ('learner = "UCWL"\n[settings]\nseed = 1', "no setting 'seed'"),
        ('learner = "UCWL"\n[settings]\neta = 2', "eta must be above 0.5 and below 1, not 2"),
        ('learner = "UCWL"\n[settings]\nC = "1"', "C must be a number, not '1'"),
        ('learner = "UCWL"\n[settings]\nC = true', "C must be a number, not True"),
        ('learner = "UCWL"\n[settings]\nC = inf', "C must be above 0, not inf"),
        ('learner = "BPA"\n[settings]\nvariant = ["PA"]', "variant must be one of"),
        ('learner = "UCWL"\n[found]\nby = "me"', "unknown 'by'; [found] has data"),
        ('learner = "UCWL"\n[found]\nrounds = 1.5', "rounds must be a whole number"),
        ('learner = "UCWL"\n[found]\nerror = true', "error must be a number"),
        ('learner = "UCWL"\n[found]\nrounds = 1', "[found] lacks data, error, repeats"),
        ("learner = " + "[" * 20_000, "not a recipe: lists nested"),
        ("#" * (LARGEST + 1), "at most 65,536 bytes"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path, text, says):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.toml: ") as error:
        read_recipe(path)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_text_is_no_recipe(tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"bad\.toml: not a recipe: it is not text"):
        read_recipe(tmp_path / "bad.toml")
    with pytest.raises(FileNotFoundError):
        read_recipe(tmp_path / "none.toml")


def test_a_recipe_is_told_by_its_ending(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.toml"):
        Recipe(ob.UCWL, {}).save(tmp_path / "tuned")
    assert not list(tmp_path.iterdir())


def test_settings_of_every_learner_are_settings_of_a_recipe(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'learner = "UCWL"\n[settings]\nhalf_life = 5000\nsilence = { right = 0.8, wrong = 0.1 }\n'
    )
    recipe = read_recipe(path)
    assert recipe.make(2).half_life == 5000
    assert recipe.settings["silence"] == {"right": 0.8, "wrong": 0.1}
    recipe.save(path)
    assert read_recipe(path) == recipe
    assert recipes.recipe_of("UCWL:half_life=5000:silence=wrong").make(2).silence == "wrong"
    with pytest.raises(ValueError, match="half_life must be between 16"):
        recipes.recipe_of("UCWL:half_life=5")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "Banditron:gama=1",
            "kernel, budget, remove, and like every learner silence, half_life, inputs, explore",
        ),
        ("Banditron:gama=1", "did you mean 'gamma'?"),
        (
            "Banditron:sed=1",
            "(seed, features, vocabulary, dtype belong to the run); did you mean 'seed'?",
        ),
        (
            "Perceptron:halflife=9",
            "no settings of its own, and like every learner silence, half_life, inputs, explore",
        ),
        ("Perceptron:halflife=9", "did you mean 'half_life'?"),
        ("Banditron:seed=1", "no setting 'seed' for Banditron here: the run has the seed: --seed"),
        ("Banditron:features=9", "the data decide how many there are"),
        ("Banditron:dtype=float64", "make the learner with dtype="),
    ],
)
def test_a_typo_in_a_setting_is_told_with_what_there_is(text, says):
    with pytest.raises(ValueError, match="no setting") as error:
        recipes.recipe_of(text)
    assert says in str(error.value)


def test_python_tells_the_same_of_a_typo():
    for name, near in {"gama": "gamma", "sed": "seed", "halflife": "half_life"}.items():
        with pytest.raises(TypeError, match=f"no setting '{name}' for Banditron") as error:
            ob.Banditron(2, **{name: 1})
        said = str(error.value)
        has = "like every learner features, vocabulary, seed, dtype, silence, half_life, inputs, "
        assert has + "explore;" in said
        assert said.endswith(f"did you mean '{near}'?")
    with pytest.raises(TypeError, match="no setting 'what' for Banditron") as error:
        ob.Banditron(2, what=1)
    assert "did you mean" not in str(error.value)
