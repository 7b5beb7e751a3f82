"""The page of `onebit teach`, and its live curve."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from onebit._version import __version__
from onebit.pages import charts
from onebit.pages.rendering import counted, percent, render

POINTS = 150  # of a curve, at most
THING = {"image": "a picture", "text": "a text", "row": "a row of your table"}


def teach_page(name: str, lesson: str, folder: str, kind: str, load: str, command: str) -> str:
    """The page. lesson: its name in browsers. folder: where the progress is. kind: of the items.
    load: lines of Python. command: which starts it again."""
    thing = "a handwritten digit" if name == "digits" else THING[kind]
    return render(
        "teach.html", name=name, lesson=lesson, folder=folder, kind=kind, thing=thing, load=load,
        command=command, version=__version__,
    )  # fmt: skip


def curve(since_start: np.ndarray, recent: np.ndarray, width: int) -> Markup:
    """Error after each guess, since the start and over the last ones, as a chart."""
    count = len(recent)
    if count < 2:
        return Markup("")
    places = np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(int))

    def series(number: int, name: str, errors: np.ndarray) -> charts.Series:
        heights = [float(errors[i]) for i in places]
        points = [charts.Point(i + 1, y, y, y) for i, y in zip(places, heights, strict=True)]
        end = f"{percent(errors[-1], 0)}%"
        return charts.Series(name, charts.coloured(number), points, (name,), end)

    window = min(count, 50)
    words = charts.Words(
        title="Error after each answer",
        desc=f"After {counted(count, 'item')}: "
        f"{percent(recent[-1], 0)}% of the last {window} were wrong, and "
        f"{percent(since_start[-1], 0)}% of all.",
        x="guesses",
        y="wrong",
        where="curve",
    )
    shown = [series(0, f"last {window}", recent), series(1, "all", since_start)]
    frame = charts.Frame("live", width, 230, line_height=15, reach=10)
    return charts.draw(
        shown,
        words,
        frame,
        x_log=False,
        y_log=False,
        y_text=lambda share: f"{100 * share:g}%",
        y_shown=[0],
    )
