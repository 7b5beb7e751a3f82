"""The command `onebit`: one module for each subcommand."""

from __future__ import annotations

import gc
import shlex
import sys
import warnings
from typing import Any

from cyclopts import App, CycloptsError, CycloptsPanel, UnusedCliTokensError

from onebit._version import __version__
from onebit.cli.compare import compare
from onebit.cli.dashboard import dashboard
from onebit.cli.data import data
from onebit.cli.evaluate import evaluate
from onebit.cli.journals import backup, export, inspect, promote, replay, retrain
from onebit.cli.options import show_on_any_terminal, show_warning
from onebit.cli.race import race
from onebit.cli.serve import serve
from onebit.cli.study import study
from onebit.cli.teach import teach
from onebit.cli.tune import tune
from onebit.core.settings import command_line
from onebit.service.faults import ServiceError

TAKES_DATA = ("race", "tune")


def _explained(error: CycloptsError) -> Any:
    """An error of the command line. A file without its option is the one that newcomers make."""
    chain = error.command_chain or ()
    if not isinstance(error, UnusedCliTokensError) or not error.unused_tokens:
        return CycloptsPanel(error)
    words = " ".join(map(shlex.quote, error.unused_tokens))
    hint = f"name data with an option: --data {words}" if set(chain) & {*TAKES_DATA} else ""
    command = " ".join(["onebit", *chain])
    return CycloptsPanel(
        f"{words} belongs to no option; {hint or 'is an option missing before it?'}\n"
        f"{command} --help shows examples."
    )


app = App(
    name="onebit",
    version=__version__,
    help="""Learn to classify when all you ever hear is "right" or "wrong".

Start with `onebit race`, then `onebit race --data mine.csv --label topic` on your own data.
`onebit evaluate` says what would have been better, by a log of what you have.
`onebit teach` lets you train a learner by hand. `onebit serve` puts one beside a product.
`onebit COMMAND --help` shows examples.""",
    error_formatter=_explained,
    suppress_keyboard_interrupt=False,  # main reports interruptions
)
app.command(race)
app.command(study)
app.command(tune)
app.command(evaluate)
app.command(compare)
app.command(teach)
app.command(data)
app.command(serve)
app.command(dashboard)
app.command(inspect)
app.command(replay)
app.command(retrain)
app.command(promote)
app.command(export)
app.command(backup)

# Errors of the user: the message says what to do.
_SAID = (ValueError, TypeError, OSError, MemoryError, ImportError, ServiceError)


def main() -> None:
    """The entry point. User errors are printed as one line, and Ctrl-C without a traceback."""
    show_on_any_terminal()
    gc.disable()  # garbage collection would take a tenth of the start-up time
    try:
        with command_line(), warnings.catch_warnings():
            warnings.showwarning = show_warning
            app(sys.argv[1:])
    except _SAID as error:
        print(f"onebit: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("onebit: interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    finally:
        gc.freeze()
        gc.enable()
