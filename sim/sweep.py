"""Running rows side by side: a pool of processes, progress from all of them, results in the order they become ready.

A row is independent of every other, so the number of workers changes nothing but the time. Workers are started afresh (spawn),
which is safe whatever threads the caller has, and take no notice of Ctrl-C: the caller stops them. With one job everything runs in
the calling process. Whatever offers `submit` as concurrent.futures does can take the pool's place.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from models.plugin import PluginError
from sim.errors import UserError, sentence
from sim.load import FILES
from sim.result import RowProgress, RowResult
from sim.scenario import Row, Scenario

OnProgress = Callable[[RowProgress], None]

POLL_S = 0.1
"""How often progress of the workers is looked at."""
COMPILING = "compiling (first run only)"
LEAST_INTERVAL_S = 0.2
"""A worker reports one row no more often than this, changes of phase apart."""


class Task(NamedTuple):
    """One row with one seed. `runner` is MODULE:FUNCTION, so that a worker imports it by itself."""

    scenario: Scenario
    row: Row
    seed: int
    quick: bool
    runner: str


def expected_work(task: Task) -> int:
    """Rough size of a row, to begin the longest first: what its structure holds times the packets of a flow.

    A structure that is given no size holds about as many entries as there are flows.
    """
    row, traffic = task.row, task.scenario.traffic
    sizes = [value for value in row.parameters.values() if isinstance(value, int)]
    flows = int(row.traffic.get("flows", traffic.flows)) * int(row.traffic.get("senders", traffic.senders))
    return max(sizes, default=flows) * (int(row.traffic.get("flow_length", traffic.flow_length)) + 1)


def run_tasks(tasks: list[Task], jobs: int, on_progress: OnProgress) -> Generator[tuple[int, RowResult], None, None]:
    """Yield (index of the task, result) as tasks finish. Raises UserError for what the user can mend, anything else for a bug.

    When the iterator is closed or interrupted, workers are stopped at once.
    """
    if min(jobs, len(tasks)) <= 1:
        for index, task in enumerate(tasks):
            yield index, run_task(task, on_progress)
        return
    if _first_phase() == COMPILING:
        _compile(tasks, on_progress)
    yield from _run_pool(tasks, min(jobs, len(tasks)), on_progress)


def _compile(tasks: list[Task], on_progress: OnProgress) -> None:
    """Compile what the tasks need, by running the shortest row of each structure at one tenth of its size.

    Workers that start without compiled kernels would each compile all of them at the same time.
    """
    shortest: dict[str, Task] = {}
    for task in sorted(tasks, key=expected_work, reverse=True):
        if task.row.traffic.get("source", task.scenario.traffic.source) not in FILES:  # read once, by its own worker
            shortest[task.row.structure] = task

    def tell(progress: RowProgress) -> None:
        if progress.phase != "done":
            on_progress(RowProgress(row=progress.row, phase=COMPILING, packets=progress.packets))

    gc.disable()  # the compiler makes millions of objects that live as long as it does: a tenth of its time
    try:
        for task in shortest.values():
            run_task(task._replace(quick=True), tell)
            on_progress(RowProgress(row=task.row.name, phase="waiting"))
    finally:
        gc.enable()


def _run_pool(tasks: list[Task], jobs: int, on_progress: OnProgress) -> Generator[tuple[int, RowResult], None, None]:
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(queue,))
    finished = False
    try:
        order = sorted(range(len(tasks)), key=lambda index: -expected_work(tasks[index]))
        with _ctrl_c_held():  # workers are started by `submit`
            waiting: dict[Future[RowResult], int] = {pool.submit(_in_worker, tasks[index]): index for index in order}
        while waiting:
            done, _ = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
            while not queue.empty():
                on_progress(queue.get())
            for future in done:
                yield waiting.pop(future), future.result()
        finished = True
    except BrokenProcessPool:
        raise UserError("a worker process ended without a result, most likely for want of memory; try --jobs 1") from None
    finally:
        if not finished:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _ctrl_c_held() -> Generator[None, None, None]:
    """Hold Ctrl-C back: processes started meanwhile are born with it held, so that none dies of it before it can ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_progress_queue: Any = None


def _start_worker(queue: Any) -> None:
    global _progress_queue
    _progress_queue = queue
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # forgets one that is held
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()


def _leave_with_parent(parent: int) -> None:
    """End this worker when its parent is gone, however that ended: nobody would read what it computes."""
    while os.getppid() == parent:
        sleep(1.0)
    os._exit(1)


def _in_worker(task: Task) -> RowResult:
    return run_task(task, _progress_queue.put)


def run_task(task: Task, on_progress: OnProgress) -> RowResult:
    """Run one row in this process. What the user can mend becomes a UserError that names the row."""
    report = _Throttle(on_progress)
    report(RowProgress(row=task.row.name, phase=_first_phase()))
    started = monotonic()
    try:
        module, _, name = task.runner.partition(":")
        runner = getattr(import_module(module), name)
        result: RowResult = runner(task.scenario, task.row, seed=task.seed, quick=task.quick, progress=report)
    except SystemExit as error:
        raise UserError(f"row {task.row.name}: {task.row.structure} ended the program (sys.exit); a structure must not") from error
    except Exception as error:
        plugin = _blame_plugin(task.row.structure, error)
        if plugin:
            raise UserError(f"row {task.row.name}: {plugin}") from error
        if isinstance(error, ValueError | OSError | MemoryError):
            raise UserError(f"row {task.row.name}: {sentence(error).removeprefix(f'row {task.row.name}: ')}") from error
        raise
    report(RowProgress(row=task.row.name, phase="done", packets=result.host.packets, done=1.0, seconds_left=0.0))
    if result.host.wall_s == 0.0:
        import msgspec

        host = msgspec.structs.replace(result.host, wall_s=monotonic() - started)
        result = msgspec.structs.replace(result, host=host)
    return result


def _blame_plugin(spec: str, error: Exception) -> str:
    """A sentence about an exception out of a user's own structure; empty if it is not the structure's.

    A ValueError, OSError or MemoryError is the structure's if it was on the way: the project raises them too, of the user's files.
    """
    file, colon, _ = spec.rpartition(":")
    if not colon or not file.endswith(".py"):
        return ""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == Path(file).name]
    if isinstance(error, ValueError | OSError | MemoryError) and (not lines or isinstance(error, PluginError)):
        return ""
    where = f"line {lines[-1]}: " if lines else ""
    return f"{file}: {where}{type(error).__name__}: {sentence(error)}; `dstlab check {spec}` says what a structure must do"


def _first_phase() -> str:
    """What a row does first: the very first run of a version compiles its kernels."""
    import numba

    import models.kernel  # noqa: F401  (names the folder)

    folder = numba.config.CACHE_DIR
    known = bool(folder) and any(Path(folder).rglob("*.nbi"))
    return "loading" if known or numba.config.DISABLE_JIT else COMPILING


class _Throttle:
    """Hands on a change of phase at once and everything else at most every LEAST_INTERVAL_S."""

    def __init__(self, hand_on: OnProgress) -> None:
        self._hand_on = hand_on
        self._phase = ""
        self._last = 0.0

    def __call__(self, progress: RowProgress) -> None:
        now = monotonic()
        if progress.phase != self._phase or now - self._last >= LEAST_INTERVAL_S:
            self._phase, self._last = progress.phase, now
            self._hand_on(progress)
