"""The conditions of a cell in a study file: its channel and its check points.

Cells depend on them, unlike on the other parts of a study file, which are in `spec`.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from onebit.feedback.channels import ChannelStep, Delay, Flip, LabelNoise, Silence
from onebit.lab.simulation import check_points

SettingValue = bool | int | float | str


class ChannelSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label_noise: float = 0.0
    noise_by: Literal["any", "others"] = "any"
    flip: tuple[float, float] = (0.0, 0.0)  # rho0, rho1
    silence: float = 0.0
    delay: int = 0

    def steps(self) -> list[ChannelStep]:
        steps: list[ChannelStep] = []
        if self.label_noise:
            steps.append(LabelNoise(self.label_noise, by=self.noise_by))
        if any(self.flip):
            steps.append(Flip(*self.flip))
        if self.silence:
            steps.append(Silence(self.silence))
        if self.delay:
            steps.append(Delay(self.delay))
        return steps


def study_check_points(rounds: int, epoch: int) -> list[int]:
    """Check points: eight rounds of each decade, the end of the first epoch, and the last round."""
    decades = {round(10 ** (k / 8)) for k in range(8, 80)}
    counted = {*decades, *check_points(rounds), epoch, rounds}
    return sorted(point for point in counted if 10 <= point <= rounds or point == rounds)
