"""Ten million rounds: does the error stay where it is, and do the numbers stay in bounds?

    python examples/ten_million_rounds.py
    python examples/ten_million_rounds.py --noise 0.05

Documents of nine topics (SynSep of Kakade et al. 2008), learned from right or wrong. With noise, a
share of the labels is false, and no learner can err less than that.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import onebit as ob

DOCUMENTS = 1_000_000  # at most; in more rounds than this, the same documents come again


def main(rounds: int = 10_000_000, noise: float = 0.0, parts: int = 10) -> None:
    passes = -(-rounds // DOCUMENTS)
    documents = -(-rounds // passes)
    rounds = passes * documents  # so that all passes are whole: at most some rounds more
    data = ob.datasets.synsep(documents, noise=noise)
    learner = ob.OneBit(labels=data.labels)
    ends = [rounds * part // parts for part in range(1, parts + 1)]
    start = time.perf_counter()
    trace = ob.simulate(learner, data, epochs=passes, order="shuffled", checkpoints=ends)
    seconds = time.perf_counter() - start
    mistakes = np.diff(trace.mistakes, prepend=0)
    print(f"{'rounds':>12} {'error in this part %':>22}")
    for end, wrong in zip(ends, mistakes, strict=True):
        print(f"{end:12,} {100 * wrong / (rounds / parts):22.4f}")
    largest = np.abs(learner.weights).max()
    print(f"{seconds:.0f} s, {1e6 * seconds / rounds:.1f} us per round")
    print(f"the largest weight is {largest:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000_000)
    parser.add_argument("--noise", type=float, default=0.0)
    main(**vars(parser.parse_args()))
