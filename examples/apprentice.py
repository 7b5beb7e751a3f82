"""From an old system to a model, with a proof on the way.

    python examples/apprentice.py

Tickets come in, and an old rule sends each to one of three teams. From the first day, the program
logs what the rule says and whether it was right, and a service learns from it. When the service has
proved that its learner is better, the learner decides, by rule. Later another learner takes over,
by hand; the one that decided before is its shadow, and one command lets it decide again. Twice on
the way, the service is killed with signal 9.
"""

from __future__ import annotations

import argparse
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from onebit.client import Client, ServiceError
from onebit.service.faults import Contradiction

TEAMS = ["billing", "shipping", "support"]
PRODUCTS = {"card": "billing", "parcel": "shipping", "phone": "support", "router": "support"}
CONFIGURATION = """
[service]
port = {port}
journal = "tickets.journal"
access_log = false

[models.tickets]
labels = ["billing", "shipping", "support"]
learner = "EpsilonGreedy"
settings = {{ epsilon = 0.1 }}
apprentice = true
promote = "when better"

[models.tickets.shadows.careful]
learner = "OneBit"
"""


def ticket(rng: random.Random) -> tuple[dict[str, str], str]:
    """A ticket, and the team that it is for: nearly always that of its product."""
    product = rng.choice([*PRODUCTS])
    team = PRODUCTS[product] if rng.random() < 0.95 else rng.choice(TEAMS)
    return {"product": product, "country": rng.choice(["DE", "FR"])}, team


def old_rule(context: dict[str, str], rng: random.Random) -> tuple[str, dict[str, float]]:
    """What the old system says, and with which probabilities: it tries out one ticket in five."""
    best = "billing" if context["product"] == "card" else "shipping"
    shares = {team: 0.2 / 3 + 0.8 * (team == best) for team in TEAMS}
    return rng.choices(TEAMS, [shares[team] for team in TEAMS])[0], shares


class Served:
    """A service in a process of its own, which can be killed."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        self.configuration = folder / "tickets.toml"
        self.configuration.write_text(CONFIGURATION.format(port=port))
        self.url, self.kills = f"http://127.0.0.1:{port}", 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "onebit.cli", "serve", str(self.configuration)]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """kill -9, and start again; requests that are under way are tried again by the client."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.kills += 1
        self.start()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


class Story:
    """What the program of the tickets does, day by day."""

    def __init__(self, client: Client, served: Served, seed: int) -> None:
        self.client, self.served, self.rng = client, served, random.Random(seed)
        self.logged = self.decided = 0

    def round(self) -> None:
        """A ticket, whoever decides: the model as soon as it may, until then the old system."""
        context, team = ticket(self.rng)
        key = f"ticket-{self.logged + self.decided}"
        try:
            told = self.client.decide("tickets", context, key=key)
        except Contradiction:  # another system decides
            said, shares = old_rule(context, self.rng)
            right = said == team
            self.client.logged(
                "tickets", context, said, right=right, propensities=shares, speaker="rule", key=key
            )
            self.logged += 1
        else:
            self.client.feedback(told.id, right=told.label == team)
            self.decided += 1

    def rounds(self, count: int, kills: bool = False) -> None:
        killer = threading.Thread(target=self.served.kill)
        for i in range(count):
            if kills and i == count // 2:
                killer.start()  # beside the requests
            self.round()
        if kills:
            killer.join()

    def tell(self, when: str) -> None:
        """Who speaks, and how the shadows do beside it, once they have learned everything."""
        card = self.client.card("tickets")
        while any(shadow.behind for shadow in card.shadows.values()):
            card = self.client.card("tickets")
        print(f"{when}: {card.speaker or 'the old system'} speaks")
        for name, shadow in card.shadows.items():
            if shadow.interval is None or not shadow.rounds:
                continue
            low, high = shadow.interval.low, shadow.interval.high
            found = "none" if shadow.difference is None else f"{shadow.difference:+.2f}"
            print(f"  {name}: {found} ({low:+.2f} to {high:+.2f}) after {shadow.rounds} rounds")


def main(rounds: int = 600, most: int = 5000, seed: int = 0) -> None:
    with tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder))
        with Client(served.url, patience=300) as client:
            client.ready()
            story = Story(client, served, seed)
            try:
                play(story, rounds, most)
            finally:
                served.stop()
        print(f"killed {served.kills} times: {story.logged} logged, {story.decided} decided")
        journal = str(Path(folder) / "tickets.journal")
        command = [sys.executable, "-m", "onebit.cli", "replay", journal, "--model", "tickets"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        print(f"replayed: the same bytes for {told.count('the same bytes')} learners")


def play(story: Story, rounds: int, most: int) -> None:
    client = story.client
    story.rounds(rounds // 4)
    story.tell("The first days")
    story.rounds(rounds // 4, kills=True)
    while client.card("tickets").speaker is None and story.logged < most:
        story.rounds(50)
    story.tell("Proved, and promoted by rule")
    story.rounds(rounds, kills=True)
    story.tell("The model speaks")
    client.promote("tickets", "careful")
    story.rounds(rounds // 4)
    story.tell("Promoted by hand")
    client.promote("tickets", undo=True)
    story.rounds(rounds // 4)
    story.tell("Undone")
    card = client.card("tickets")
    if (card.logged, card.rounds) != (story.logged, story.decided):
        raise ServiceError(f"the journal has {card.logged} and {card.rounds} rounds")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
