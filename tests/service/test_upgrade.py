"""Journals of all earlier versions open in this one. keep_journal.py writes them."""

from __future__ import annotations

import json
import shutil

import pytest
from keep_journal import JOURNALS, fill, state
from running import Home, assert_pure, context, named

from onebit.service.journal import SCHEMA, schema_of


@pytest.mark.parametrize("version", range(1, SCHEMA + 1))
def test_a_journal_of_an_earlier_version(tmp_path, version):
    kept = JOURNALS / f"v{version}.journal"
    home = Home(tmp_path)
    shutil.copy(kept, home.journal)
    shutil.copy(kept.with_suffix(".toml"), home.config)
    home.clock.now += 20
    service = home.start()
    try:
        expected = json.loads(kept.with_suffix(".json").read_text())
        assert state(service) == {"confidences": {}} | expected  # schema 1 has none
        with service.journal.reading() as connection:
            assert schema_of(connection, home.journal) == SCHEMA
        for name, engine in service.models.items():
            assert_pure(engine)
            given = context(1) if name == "news" else named(1)  # as it was taught
            engine.feedback(engine.decide(given).id, right=True)
            assert_pure(engine)
    finally:
        home.stop()


def test_the_journal_that_is_kept_is_one_of_this_version(tmp_path):
    """The newest one is what keep_journal.py writes now; if not, schema or rules have changed."""
    text = (JOURNALS / f"v{SCHEMA}.toml").read_text().partition("[models.news]\n")[2]
    home = Home(tmp_path, text)
    try:
        expected = json.loads((JOURNALS / f"v{SCHEMA}.json").read_text())
        assert state(fill(home)) == expected
    finally:
        home.stop()
