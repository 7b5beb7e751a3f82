"""The system's clock jumps. Nothing expires or counts as silence because of that."""

from __future__ import annotations

import logging

import pytest
from helpers.serving import serving
from running import Clock, Home, assert_pure, context, play

from onebit.service.configuration import check
from onebit.service.faults import Expired
from onebit.service.journal import clock as clock_module

DAY = 86400.0
FAR = 9_999 * DAY
SILENT = 'silence = { wrong_after = "10s" }\nexpires_after = "100s"'


class Place:
    """A home in which the system's clock can be set, while the steady clock goes on."""

    def __init__(self, folder, text: str = SILENT) -> None:
        self.home = Home(folder, text)
        self.steady = Clock(5_000.0)

    @property
    def wall(self) -> Clock:
        return self.home.clock

    def pass_by(self, seconds: float) -> None:
        self.wall.now += seconds
        self.steady.now += seconds

    def start(self):
        return self.home.start(steady=self.steady)

    def restart(self):
        self.home.stop()
        return self.start()


@pytest.fixture(autouse=True)
def boot(monkeypatch):
    """The name of this run of the system, which a test may change."""
    name = ["first"]
    monkeypatch.setattr(clock_module, "_boot", lambda: name[0])
    return name


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.home.stop()


@pytest.mark.parametrize("jump", [FAR, -FAR, 301.0, -301.0])
def test_a_jump_is_not_followed_and_told(place, caplog, jump):
    caplog.set_level(logging.WARNING, "onebit.service")
    service = place.start()
    news = service.models["news"]
    before = news.decide(context(0)).id
    first = news.look(before).time
    place.wall.now += jump
    place.pass_by(5)
    service.tick()
    during = news.decide(context(1)).id
    assert news.look(during).time == first + 5
    assert news.look(before).state == "open"
    where = "ahead" if jump > 0 else "back"
    assert f"has jumped {where}" in service.clock.problem
    assert abs(service.clock.jump - jump) < 1e-6
    assert [f"has jumped {where}" in line for line in caplog.messages] == [True]
    place.wall.now -= jump  # it is right again
    place.pass_by(1)
    service.tick()
    assert service.clock.problem == "" and service.clock.jump == 0
    assert "followed again" in caplog.messages[-1] and len(caplog.messages) == 2
    after = news.decide(context(2)).id
    assert news.look(after).time == first + 6
    assert_pure(news)


@pytest.mark.parametrize("jump", [FAR, -FAR])
def test_silence_and_expiry_go_by_the_steady_clock_meanwhile(place, jump):
    service = place.start()
    news = service.models["news"]
    ids = [news.decide(context(i)).id for i in range(2)]
    place.wall.now += jump
    for _ in range(9):
        place.pass_by(1)
        service.tick()
    assert {news.look(id).state for id in ids} == {"open"}
    news.feedback(ids[0], right=True)
    place.pass_by(2)
    service.tick()
    assert news.look(ids[1]).feedback[-1].source == "silence"
    place.pass_by(101)
    with pytest.raises(Expired):
        news.feedback(ids[1], right=True)
    assert_pure(news)


def test_small_steps_are_followed_but_not_backwards(place):
    service = place.start()
    journal = service.journal
    start = journal.stamp(0)[1]
    place.wall.now += 299
    assert journal.stamp(0)[1] == start + 299
    place.wall.now -= 200
    assert journal.stamp(0)[1] == start + 299
    place.pass_by(100)
    assert journal.stamp(0)[1] == start + 299
    place.pass_by(200)
    assert journal.stamp(0)[1] == start + 399 and service.clock.problem == ""


def test_a_long_time_in_which_nothing_happens_is_no_jump(place):
    service = place.start()
    before = service.journal.stamp(0)[1]
    place.pass_by(365 * DAY)
    place.wall.now += 365 * DAY / 2000  # one clock runs a little faster
    assert service.journal.stamp(0)[1] > before + 365 * DAY and service.clock.problem == ""


@pytest.mark.parametrize("crashes", [False, True])
def test_a_restart_during_a_jump(place, tmp_path, crashes):
    """The steady clock goes on while no process runs."""
    service = place.start()
    news = service.models["news"]
    id = news.decide(context(0)).id
    first = news.look(id).time
    place.wall.now += FAR
    place.pass_by(3)
    if crashes:
        place.home.stop, stop = lambda: None, place.home.stop
        place.home = place.home.crashed(tmp_path / "crashed")
        stop()
        service = place.start()
    else:
        service = place.restart()
    news = service.models["news"]
    service.tick()
    assert news.look(id).state == "open" and "jumped ahead" in service.clock.problem
    later = news.decide(context(1)).id
    assert news.look(later).time == first + 3
    place.wall.now -= FAR
    service = place.restart()
    assert service.clock.problem == "" and service.journal.stamp(0)[1] == first + 3
    assert_pure(service.models["news"])


def test_after_a_restart_of_the_system_the_clock_is_believed(place, boot):
    """Nobody knows how long it was off."""
    service = place.start()
    id = service.models["news"].decide(context(0)).id
    place.home.stop()
    boot[0] = "second"
    place.steady.now = 10.0
    place.wall.now += 50
    service = place.start()
    service.tick()
    assert service.clock.problem == ""
    assert service.models["news"].look(id).feedback[-1].source == "silence"


def test_a_journal_from_the_future_goes_on(place, boot):
    """The system was started with a wrong clock, and was believed."""
    place.wall.now += FAR
    news = place.start().models["news"]
    future = news.look(news.decide(context(0)).id).time
    place.home.stop()
    boot[0] = "second"
    place.wall.now -= FAR
    service = place.start()
    news = service.models["news"]
    id = news.decide(context(1)).id
    assert "jumped back" in service.clock.problem and news.look(id).time >= future
    place.pass_by(11)
    service.tick()
    assert news.look(id).feedback[-1].source == "silence"  # time goes on


def test_a_reload_trusts_the_clock(place):
    service = place.start()
    news = service.models["news"]
    play(news, 3)
    place.wall.now += DAY
    service.tick()
    assert service.clock.problem
    service.reload(check(place.home.config))
    service.tick()
    assert service.clock.problem == "" and service.journal.stamp(0)[1] == place.wall.now
    play(news, 1)
    service = place.restart()
    assert service.clock.problem == "" and service.journal.stamp(0)[1] == place.wall.now


def test_ready_and_metrics_tell_of_a_jump(place):
    service = place.start()
    with serving(service) as site:
        ready = site.http.get("/ready").json()
        assert "clock" not in ready
        assert "onebit_clock_jump_seconds 0.0" in site.http.get("/metrics").text
        place.wall.now += FAR
        service.tick()
        ready = site.http.get("/ready").json()
        assert "9999 days" in ready["clock"] and ready["status"] == "ready"
        assert "onebit_clock_jump_seconds 8.639136e+08" in site.http.get("/metrics").text
