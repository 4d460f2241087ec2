"""Has the inputs of a job read where its executor says: in processes here, or on a cluster of Dask."""

import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from typing import Any

from ...errors import ToolError
from ...progress import Progress
from ..parts import WORTH_A_WORKER, worker_cnt
from ..store.limits import share
from . import folder
from .executors import Executor
from .folder import Task
from .unit import Outcome, Worker, complete, is_finished

_POLL_S = 0.2
_ANSWERS_S = 30

Outcomes = dict[Task, Outcome]


def run(executor: Executor, tasks: Sequence[Task], progress: Progress, *, force: bool = False) -> Outcomes:
    """What became of each of these inputs. Raises OutputError when results cannot be written."""
    what = "upgrading" if any(task.is_upgrade for task in tasks) else "reading"
    progress.step(f"{what} {len(tasks)} inputs", len(tasks))
    if executor.kind == "dask":
        return _on_dask(tasks, executor.address, progress, force)
    return _here(tasks, executor.worker_cnt, progress, force)


def _here(tasks: Sequence[Task], count: int | None, progress: Progress, force: bool) -> Outcomes:
    """In so many processes; without a number in as many as pay, and in this one where none does."""
    if count is None:  # inputs are packed, most of them
        count = worker_cnt(sum(task.size_bytes >= WORTH_A_WORKER // 8 for task in tasks))
    count = min(count, len(tasks))
    if not count:
        return {task: _counted(complete(task, force=force), progress) for task in tasks}
    own, workers, found = threading.local(), set[Worker](), dict[Future[Outcome], Task]()

    def work(task: Task) -> Outcome:
        if not hasattr(own, "worker"):
            own.worker = Worker(share(count))
            workers.add(own.worker)
        return complete(task, own.worker, force=force)

    with ThreadPoolExecutor(count) as pool:
        found |= {pool.submit(work, task): task for task in tasks}
        waiting = set(found)
        try:
            while waiting:
                done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
                for one in done:
                    one.result()  # a disk that is full ends all
                progress.advance(len(done))
        finally:
            for one in waiting:
                one.cancel()
            for worker in list(workers):
                worker.stop()
    return {task: one.result() for one, task in found.items()}


def _counted(outcome: Outcome, progress: Progress) -> Outcome:
    progress.advance(1)
    return outcome


def _on_dask(tasks: Sequence[Task], address: str, progress: Progress, force: bool) -> Outcomes:
    """On a cluster whose workers see the folder of the job."""
    try:
        import distributed
    except ImportError as error:
        raise ToolError("--dask needs Dask: pip install 'lorabench[dask]'") from error
    try:
        client = distributed.Client(address, timeout=_ANSWERS_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ToolError(f"no Dask scheduler answers at {address}: {str(error).splitlines()[0]}") from error
    job = uuid.uuid4().hex
    with client:
        try:
            client.wait_for_workers(1, timeout=_ANSWERS_S)
        except TimeoutError as error:
            raise ToolError(f"the Dask scheduler at {address} has no workers") from error
        waiting = {client.submit(on_worker, job, asdict(task), force, pure=False): task for task in tasks}
        found = {
            waiting[future]: _counted(_seen(waiting[future], future), progress)
            for future in distributed.as_completed(list(waiting), loop=client.loop)
        }
        client.run(end_beside, job, on_error="ignore")
        return found


def _seen(task: Task, future: Any) -> Outcome:
    """What a task on a cluster came to: its result must be where this machine sees it."""
    error = future.exception()
    if error is not None:
        text = f"the Dask workers that read it ended: {str(error).splitlines()[0]}"
        folder.note_problem(task, text, is_final=False)
        return Outcome("lost", text)
    outcome = Outcome(**future.result())
    if outcome.what != "lost" and not is_finished(task):
        text = f"a Dask worker wrote {task.folder}, which this machine does not see; choose a shared folder for -o"
        return Outcome("lost", text)
    return outcome


_beside: dict[tuple[str, int], Worker] = {}


def on_worker(job: str, task: dict[str, Any], force: bool) -> dict[str, Any]:
    """Complete a task in a process beside this worker of Dask, which so outlives whatever it reads."""
    worker = _beside.setdefault((job, threading.get_ident()), Worker())
    return asdict(complete(Task(**task), worker, force=force))


def end_beside(job: str) -> None:
    """End the processes beside this worker of Dask that were started for a job."""
    for key in [key for key in _beside if key[0] == job]:
        _beside.pop(key).stop()
