"""The page of `onebit evaluate` and `onebit compare`."""

from __future__ import annotations

import pytest
from helpers.markup import Checker, charts

from onebit.pages.evidence import Judged, Moment, evidence_page
from onebit.service.dashboard import page as dashboard  # noqa: F401 it adds filters to templates


def judged(name, values, notes=()):
    moments = [
        Moment(10 * 2**i, value, (value or 0.3) - 0.5 / 2**i, (value or 0.3) + 0.5 / 2**i)
        for i, value in enumerate(values)
    ]
    return Judged(name, moments, (0.1, 0.9), 1234.5, list(notes))


def page_of(*policies, is_difference=False):
    facts = {"log": "tickets.csv"}
    command = "onebit evaluate tickets.csv"
    return evidence_page(
        "onebit evaluate", policies, is_difference, "40 rounds.", command, "1.2.3", facts
    )


@pytest.mark.parametrize("is_difference", [False, True])
def test_the_page_is_well_formed_and_has_the_numbers(is_difference):
    one = judged("OneBit, learning", [0.5, 0.55, 0.6])
    two = judged("<always> 'a'", [None, None], ["600 rounds have no propensity & none"])
    page = page_of(one, two, is_difference=is_difference)
    checked = Checker(page)
    assert len(checked.ids) == len(set(checked.ids))
    assert set(checked.references) <= set(checked.ids)
    assert not checked.links
    pictures = [svg for svg in charts(page) if svg.get("role") == "img"]
    assert len(pictures) == 2  # wide and narrow
    assert "&lt;always&gt;" in page and "no propensity &amp; none" in page
    sign = "+" if is_difference else ""
    for text in (f"{sign}60.00", "none", f"{sign}10.00 to {sign}90.00", "onebit evaluate tickets"):
        assert text in page
    assert "no estimate" in page and "1,23" in page


def test_differences_may_be_negative():
    assert "-20.00" in page_of(judged("a - b", [-0.1, -0.2]), is_difference=True)
