"""A robot asks "was that right?" ten times a second, in a world that drifts.

    python examples/robot.py

Each tenth of a second it has 64 numbers from its sensors and chooses one of 6 actions. A person
says yes or no: one answer in ten is false, and to four actions in ten there is no answer. The
sensors wear slowly: their scales and zero points drift. After half of the time, two pairs of
actions swap their meanings. Mistakes are counted against the true action, which the robot never
sees.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import onebit as ob

RATE = 10  # decisions per second
SENSORS, ACTIONS = 64, 6
FALSE, SILENT = 0.1, 0.4


def world(rounds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What the sensors show, and which action would be right."""
    rng = np.random.default_rng(seed)
    situation = rng.normal(size=(rounds, 8))  # hidden; the sensors show mixtures of it
    right = (situation @ rng.normal(size=(8, ACTIONS))).argmax(axis=1)
    swapped = np.array([1, 0, 3, 2, 4, 5])
    right[rounds // 2 :] = swapped[right[rounds // 2 :]]
    sensors = situation @ rng.normal(size=(8, SENSORS)) + rng.normal(size=(rounds, SENSORS))
    wear = np.linspace(0, 1, rounds)[:, None]
    scale = np.exp(wear * rng.normal(scale=0.3, size=SENSORS))
    zero = wear * rng.normal(size=SENSORS)
    units = 10 ** rng.uniform(-2, 3, size=SENSORS)  # volts, degrees, millimetres
    return (sensors * scale + zero) * units, right


def drive(
    learner: ob.Learner, X: np.ndarray, right: np.ndarray, alarm: ob.DriftAlarm | None, seed: int
) -> tuple[np.ndarray, float, list[int]]:
    """Whether each action was wrong, the seconds per round, and when the alarm rang."""
    rng = np.random.default_rng(seed + 1)
    wrong, rang = np.zeros(len(X), bool), []
    start = time.perf_counter()
    for t, x in enumerate(X):
        decision = learner.decide(x)
        is_right = bool(decision.label == right[t])
        wrong[t] = not is_right
        if rng.random() < SILENT:
            continue  # nobody answers: nothing is called
        answer = is_right != (rng.random() < FALSE)
        learner.learn(decision, right=answer)
        if alarm is not None and alarm.hear(answer):
            learner.forget(0.9)
            rang.append(t)
    return wrong, (time.perf_counter() - start) / len(X), rang


def main(minutes: float = 60, seed: int = 0) -> None:
    rounds = int(minutes * 60 * RATE)
    X, right = world(rounds, seed)
    robots = {
        "OneBit": (ob.OneBit(ACTIONS), None),  # has an alarm of its own
        "Confidit": (ob.Confidit(ACTIONS, inputs="auto"), None),
        "Confidit, half-life 10 min": (
            ob.Confidit(ACTIONS, inputs="auto", half_life=10 * 60 * RATE),
            None,
        ),
        "Confidit, alarm": (ob.Confidit(ACTIONS, inputs="auto"), ob.DriftAlarm()),
    }
    for learner, alarm in robots.values():  # compile before the clock runs
        drive(learner.copy(), X[:2], right, alarm and ob.DriftAlarm(), seed)
    quarter = rounds // 4
    print(f"{minutes:g} minutes, {rounds:,} rounds; % wrong in each quarter of the time")
    print(f"{'':<26} {'1st':>6} {'2nd':>6} {'3rd':>6} {'4th':>6} {'us per round':>13}")
    for name, (learner, alarm) in robots.items():
        wrong, seconds, rang = drive(learner, X, right, alarm, seed)
        errors = [100 * wrong[i * quarter : (i + 1) * quarter].mean() for i in range(4)]
        shown = " ".join(f"{error:6.1f}" for error in errors)
        when = [f"{t / RATE / 60:.1f}" for t in rang]
        note = f"  alarm after {', '.join(when)} minutes" if when else ""
        print(f"{name:<26} {shown} {1e6 * seconds:13.0f}{note}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
