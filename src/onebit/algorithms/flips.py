"""Feedback that is flipped at known rates, and an unbiased estimate of the true bit.

Wrong is heard as right with probability rho0, right as wrong with probability rho1. Let b = 1 -
rho0 - rho1, and h = (1 - rho0)/b if right is heard, -rho0/b if wrong is heard. The mean of h is the
true bit (Natarajan and others 2013; Agarwal, Manwani 2021, Lemma 1). So where a gradient is linear
in the bit, h in place of the bit makes it unbiased again.
"""

from __future__ import annotations

from typing import Any

from onebit.core.exploring import replaced
from onebit.core.jit import inline
from onebit.core.settings import setting
from onebit.learner.learner import Learner

RHO0 = setting(default=0.0, least=0, below=1, doc="how often wrong is heard as right")
RHO1 = setting(
    default=0.0,
    least=0,
    below=1,
    doc="how often right is heard as wrong; the gradient is corrected for both rates as in RCNBF, "
    "and their sum is below 1",
)


@inline
def unflipped(rho0, rho1, right):
    """h: its mean over the flips is 1 if the answer was right, 0 if it was wrong."""
    return (1.0 - rho0 if right else -rho0) / (1.0 - rho0 - rho1)


class _CorrectsFlips(Learner):
    """A learner with rho0 and rho1 among its settings."""

    importance_weighted = True
    rescores = False
    rho0: float
    rho1: float

    def _check_settings(self) -> None:
        if self.rho0 + self.rho1 >= 1:
            raise ValueError(
                f"rho0 + rho1 must be below 1, not {self.rho0:g} + {self.rho1:g}: with so many "
                "flips, feedback carries no information, or means the opposite"
            )

    def _params_for_truth(self) -> Any:
        return replaced(self.params, rho0=0.0, rho1=0.0)
