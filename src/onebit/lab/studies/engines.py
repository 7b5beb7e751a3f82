"""Where the cells of a study run: threads, processes (loky), or a cluster of dask or ray."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from onebit.core.extras import optional_module
from onebit.lab.studies.cells import Cell, Result, run_cells
from onebit.registry.lookup import Home, home_of, import_home, learner_named

Jobs = Sequence[Sequence[Cell]]
Done = Iterator[tuple[int, list[Result]]]  # a job's index, and the results of its cells


def run_on(engine: str, jobs: Jobs, workers: int) -> Done:
    """Run jobs, and yield each as soon as it is done."""
    if engine == "threads":
        return _threads(jobs, workers)
    # Other processes first import the learners of other packages.
    names = sorted({cell.learner for job in jobs for cell in job})
    homes = [home for name in names if (home := home_of(learner_named(name)))]
    if engine == "ray":
        return _ray(jobs, workers, homes)
    return _joblib(engine, jobs, workers, homes)


def _threads(jobs: Jobs, workers: int) -> Done:
    stopped = threading.Event()

    def report(rounds: int) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    with ThreadPoolExecutor(workers) as pool:
        try:
            places = {pool.submit(run_cells, job, report): i for i, job in enumerate(jobs)}
            for future in as_completed(places):
                yield places[future], future.result()
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise


def _numbered(place: int, job: Sequence[Cell], homes: Sequence[Home]) -> tuple[int, list[Result]]:
    """Run a job in another process."""
    try:
        for home in homes:
            import_home(home)
    except (ValueError, OSError) as error:
        return place, [Result(error=str(error)) for _ in job]
    return place, run_cells(job)


def _joblib(engine: str, jobs: Jobs, workers: int, homes: Sequence[Home]) -> Done:
    joblib = optional_module("joblib", "joblib", "this engine needs")
    client = None
    if engine == "dask":  # a running cluster (DASK_SCHEDULER_ADDRESS), or a new local one
        distributed = optional_module("distributed", "distributed", "dask needs", "cluster")
        address = os.environ.get("DASK_SCHEDULER_ADDRESS")
        made = {} if address else {"n_workers": workers, "threads_per_worker": 1}
        client = distributed.Client(address, **made)
    try:
        with joblib.parallel_config(engine, n_jobs=workers):
            run = joblib.Parallel(return_as="generator_unordered", batch_size=1)
            yield from run(joblib.delayed(_numbered)(i, job, homes) for i, job in enumerate(jobs))
    finally:
        if client is not None:
            client.close()


def _ray(jobs: Jobs, workers: int, homes: Sequence[Home]) -> Done:
    """Run jobs by ray directly: through joblib it yields nothing before the last job is done."""
    ray = optional_module("ray", "ray", "this engine needs", "cluster")
    ours = not ray.is_initialized()
    if ours:  # a running cluster (RAY_ADDRESS), or a new local one
        made = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers}
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **made)
    try:
        remote = ray.remote(_numbered)
        waiting = [remote.remote(i, list(job), homes) for i, job in enumerate(jobs)]
        places = {job: i for i, job in enumerate(waiting)}
        while waiting:
            [ready], waiting = ray.wait(waiting)
            try:
                yield ray.get(ready)
            except ray.exceptions.RayError as error:  # its worker died, usually out of memory
                message = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                yield places[ready], [Result(error=message) for _ in jobs[places[ready]]]
    finally:
        if ours:
            ray.shutdown()
