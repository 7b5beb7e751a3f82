"""onebit compare: whether a policy is better than another one, or than whoever wrote a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onebit.cli import options
from onebit.cli.logs import Assumptions, Files, LogOptions, policies_of, write_page
from onebit.cli.options import Flag, Imports, Repeated, Seed


def compare(
    log: Files,
    /,
    *,
    learner: Repeated = None,
    always: Repeated = None,
    learns: Flag = False,
    imports: Imports = None,
    seed: Seed = 0,
    out: Path | None = None,
    assumptions: Assumptions | None = None,
    columns: LogOptions | None = None,
) -> None:
    """Estimate by how much more a learner would have been right than another, or than the log.

    Name one policy, to compare it with whoever wrote the log, or two. The interval holds however
    often one looks: if it excludes 0, one of them is better.

    ```
    onebit compare tickets.csv --label said --right ok --propensity p --learner OneBit
    onebit compare log.parquet --label said --right ok --learner OneBit --learner UCWL
    onebit compare onebit.journal --learner news.onebit
    onebit compare log.jsonl --learner OneBit --always billing --exclusive no
    ```

    Parameters
    ----------
    log
        A file, or several that follow one another; or the journal of a service.
    learner
        As for `onebit evaluate`: a learner that learns from the log as it goes, or a saved one.
    always
        A label that is always said.
    learns
        Saved learners go on learning from the log, too.
    out
        A file for a page with the curves over time. Default: none is written.
    """
    from onebit.evidence.judging import compare as judge

    options.import_all(imports)
    if out is not None:
        options.check_out(out)
    opened = (columns or LogOptions()).open(log)
    given = (assumptions or Assumptions()).given()
    judged = policies_of(opened, learner, always, learns, seed)
    if len(judged) not in (1, 2):
        raise ValueError("name one or two policies, with --learner or --always")
    saved = [each.name for each in judged if not each.learns and each.name.endswith(".onebit")]
    goes_on = any(each.learns for each in judged)
    if saved and goes_on:
        remedy = f"pass --learns, so that {saved[0]} does so, too"
        raise ValueError(f"the other learner learns from the log; {remedy}")
    against = judged[1].policy if len(judged) == 2 else None
    how: dict[str, Any] = given | ({"workers": 1} if goes_on else {})
    found = judge(opened, judged[0].policy, against, learns=goes_on, **how)
    print(found)
    if out is not None:
        write_page(out, "onebit compare", [(" - ".join(found.policies), found)], log)
