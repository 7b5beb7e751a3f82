"""The alarm: quiet as long as right does not become rarer, and quick when it does."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onebit as ob
from onebit.feedback.drift import _entropy, _one_in


def bits(chances, seed):
    return np.random.default_rng(seed).random(len(chances)) < chances


def naive(log, chance):
    """Where the alarms are, from the definitions, with all counts kept."""

    def kl(a, b):
        return sum(p * math.log(p / q) for p, q in ((a, b), (1 - a, 1 - b)) if p > 0)

    alarms, start, number = [], 0, 1
    for t in range(1, len(log) + 1):
        part = log[start:t]
        shares = [sum(part[:n]) / n for n in range(1, len(part) + 1)]
        margins = [math.sqrt(math.log(1000) / 2 / n) for n in range(1, len(part) + 1)]

        def latest(values):
            top = max(values)
            return max(n for n, value in enumerate(values, 1) if value == top)

        fall = latest([a - e for a, e in zip(shares, margins, strict=True)])
        rise = latest([-a - e for a, e in zip(shares, margins, strict=True)])
        for n, fallen in ((fall, True), (rise, False)):
            m, c = len(part) - n, shares[-1]
            if m == 0:
                continue
            a, b = shares[n - 1], sum(part[n:]) / m
            w = [1 / (4 * k * math.log(k + 1) ** 2) for k in (n, m)]
            rare = -math.log(chance / (number * (number + 1)) * w[0] * w[1])
            ratio = n * kl(a, c) + m * kl(b, c) if 0 < c < 1 else 0
            if (a > b if fallen else a < b) and ratio >= rare + math.log(1 + 2 * rare):
                start, number = t, 1 if fallen else number + 1
                if fallen:
                    alarms.append(t - 1)
                break
    return alarms


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_its_definition_says(seed):
    chances = np.repeat(np.random.default_rng(seed).choice([0.05, 0.3, 0.6, 0.95], 6), 70)
    log = bits(chances, seed).tolist()
    alarm = ob.DriftAlarm(chance=0.2)
    assert alarm.hear_all(log) == naive(log, 0.2)


def test_some_of_those_had_alarms():
    assert any(
        ob.DriftAlarm(chance=0.2).hear_all(bits(np.repeat([0.95, 0.1], 140), seed))
        for seed in range(4)
    )


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9, 0.99])
def test_false_alarms_are_rarer_than_stated(share):
    """Much rarer: that every cut and every length is watched costs more than need be."""
    chances = np.full(1500, share)
    alarms = [ob.DriftAlarm(chance=0.5).hear_all(bits(chances, seed)) for seed in range(60)]
    assert sum(map(bool, alarms)) <= 3


def test_a_learner_that_gets_better_is_no_alarm():
    rising = [np.linspace(0.1, 0.95, 3000), np.repeat([0.1, 0.4, 0.6, 0.9], 700)]
    for seed in range(25):
        for chances in rising:
            assert not ob.DriftAlarm(chance=0.1).hear_all(bits(chances, seed))


@pytest.mark.parametrize(
    ("before", "after", "within"), [(0.95, 0.5, 250), (0.9, 0.6, 450), (0.98, 0.9, 1500)]
)
def test_a_fall_is_found(before, after, within):
    for seed in range(10):
        log = bits(np.repeat([before, after], [4000, within]), seed)
        alarms = ob.DriftAlarm().hear_all(log)
        assert len(alarms) == 1 and alarms[0] >= 4000


def test_a_poor_past_does_not_hide_a_fall():
    chances = np.concatenate([np.full(3000, 0.2), np.full(1500, 0.95), np.full(600, 0.6)])
    for seed in range(10):
        alarms = ob.DriftAlarm().hear_all(bits(chances, seed))
        assert alarms and alarms[0] >= 4500


def test_it_starts_anew_after_an_alarm():
    log = bits(np.repeat([0.95, 0.5], [2000, 2000]), 1)
    alarm = ob.DriftAlarm()
    (place,) = alarm.hear_all(log)
    assert alarm.heard == len(log) - place - 1
    fresh = ob.DriftAlarm()
    fresh.hear_all(log[place + 1 :])
    assert fresh._counts.tolist() == alarm._counts.tolist()


def test_it_can_be_put_away_and_taken_up_again():
    log = bits(np.repeat([0.9, 0.4], [500, 300]), 2).tolist()
    through, stopped = ob.DriftAlarm(), ob.DriftAlarm()
    places = through.hear_all(log)
    first = stopped.hear_all(log[:450])
    again = pickle.loads(pickle.dumps(stopped))
    assert places and first + [450 + place for place in again.hear_all(log[450:])] == places
    assert repr(again) == f"DriftAlarm(chance=0.01, heard={again.heard})"


@given(st.lists(st.booleans(), max_size=300))
def test_the_quick_way_out_misses_nothing(log):
    """One by one or all at once; and the ratio is never above the quotient that is looked at."""
    one, two = ob.DriftAlarm(chance=0.5), ob.DriftAlarm(chance=0.5)
    assert [t for t, right in enumerate(log) if one.hear(right)] == two.hear_all(log)
    total, right = len(log), sum(log)
    for n in range(1, total):
        if 0 < right < total:
            a, b = sum(log[:n]), right - sum(log[:n])
            ratio = _entropy(total, right) - _entropy(n, a) - _entropy(total - n, b)
            difference = a * (total - n) - b * n
            products = n * (total - n) * right * (total - right)
            assert ratio <= difference**2 * total / products + 1e-9


def test_the_parts_of_the_chance_add_up_to_less_than_one():
    counts = np.arange(1, 10**6)
    assert sum(1 / _one_in(n) for n in range(1, 1000)) < 1
    parts = 1 / (4 * counts * np.log(counts + 1) ** 2)
    assert parts.sum() + 1 / (4 * math.log(10**6)) < 1  # the rest, by an integral


def test_flips_shrink_a_fall_and_do_not_hide_it():
    rho0, rho1 = 0.1, 0.2
    chances = rho0 + (1 - rho0 - rho1) * np.repeat([0.95, 0.4], [3000, 700])
    assert all(ob.DriftAlarm().hear_all(bits(chances, seed))[0] >= 3000 for seed in range(8))


@pytest.mark.parametrize("wrong", [2, -1, None, "right", 0.5, 1.0, np.int64(2)])
def test_other_answers_are_refused(wrong):
    alarm = ob.DriftAlarm()
    before = dict(vars(alarm))
    with pytest.raises(TypeError, match="True or False"):
        alarm.hear(wrong)
    with pytest.raises(TypeError, match="True or False"):
        alarm.hear_all([True, wrong])
    assert vars(alarm) == before
    assert alarm.hear(np.True_) is False


def test_0_and_1_are_wrong_and_right():
    plain, stored = ob.DriftAlarm(), ob.DriftAlarm()
    answers = [1, 0, np.int64(1), np.uint8(0), True, np.False_]
    assert stored.hear_all(answers) == plain.hear_all([True, False, True, False, True, False])
    assert stored._counts.tolist() == plain._counts.tolist()


@pytest.mark.parametrize("chance", [0, 1, 0.6, -0.1, "rare", True, math.nan])
def test_other_chances_are_refused(chance):
    with pytest.raises((ValueError, TypeError), match="chance"):
        ob.DriftAlarm(chance=chance)
