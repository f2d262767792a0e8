"""A Ray cluster: one task per run, with what it needs. Ray places it, and says what was lost with its node."""

import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from dsacc.errors import DsaccError
from dsacc.experiments.backends.base import Attempt, Backend, Ending
from dsacc.experiments.backends.cluster import check_nodes, connected, listens, living
from dsacc.experiments.backends.process import PATIENCE
from dsacc.experiments.backends.supervised import SupervisedTask
from dsacc.experiments.task import TaskFile
from dsacc.system.text import size

POLL = 0.5  # seconds that one poll waits for an ending
LOOK = 5.0  # seconds between two looks at the nodes
SILENCE = 20.0  # seconds after which a head that does not answer is lost; Ray itself ends this process after 60


class OnRay(Backend):
    """Ray Core tasks. Ray places them, and says which were lost with their node.

    `address` is HOST:PORT of a cluster, `auto` or `local`; None takes RAY_ADDRESS, or starts a cluster of its own. A
    cluster that asks for no token is refused unless `allow_open`.
    """

    pause = 0.0  # `poll` waits itself

    def __init__(
        self, workers: int | None = None, device: str = "cpu", *, address: str | None = None, allow_open: bool = False
    ) -> None:
        super().__init__(workers, device)
        self.address, self.allow_open = address, allow_open

    @contextmanager
    def open(self, out: Path) -> Iterator[None]:
        with connected(self.address, self.capacity, self.allow_open) as self._ray:
            check_nodes(self._ray, out.absolute())
            self._nodes, self._head = _Nodes(self._ray), _Head(self._ray.get_runtime_context().gcs_address)
            yield

    def submit(self, attempt: Attempt) -> Any:
        needs = {"num_cpus": 1, "num_gpus": self._gpus, "memory": attempt.memory}
        # Ray would repeat what was lost without a word; the scheduler does it, and counts.
        remote = self._ray.remote(perform).options(name=attempt.name, **needs, max_retries=0)
        return remote.remote(str(attempt.out.absolute()), attempt.name, self.device, attempt.run.modules)

    def poll(self, running: Mapping[Any, Attempt]) -> dict[Any, Ending]:
        if not self._head.answers():  # then a question to Ray may hang, and what it says of a run may be its own end
            time.sleep(POLL)
            return {}
        self._nodes.tell_lost()
        ended = self._ray.wait(list(running), timeout=POLL)[0]
        return {task: self._ending(task, running[task]) for task in ended} if self._head.answers() else {}

    def _ending(self, task: Any, attempt: Attempt) -> Ending:
        lost = self._ray.exceptions.NodeDiedError, self._ray.exceptions.WorkerCrashedError
        try:
            ending: Ending = self._ray.get(task)
            return ending
        except lost:
            TaskFile(attempt.out, attempt.name).take_away("lost with its node")
            return Ending(None, "ray", None, "lost with its node")
        except self._ray.exceptions.RayError as error:
            return Ending(f"Ray could not finish it: {' '.join(str(error).split())[:300]}", "ray", 0.0)

    def cancel(self, running: Sequence[Any]) -> None:
        for task in running:
            self._ray.cancel(task, force=False)  # interrupts its worker, whose run then saves
        if running:
            self._ray.wait(list(running), num_returns=len(running), timeout=PATIENCE + POLL)

    def refusal(self, attempt: Attempt) -> Ending | None:
        """What no node has. Ray would wait for it without a word."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not any(node.get("CPU", 0) >= 1 and node.get("GPU", 0) >= self._gpus for node in nodes):
            return Ending(f"no node of the Ray cluster has a CPU{' and a GPU' if self._gpus else ''} for it", "ray")
        needed, most = attempt.memory, max(int(node.get("memory", 0)) for node in nodes)
        if needed > most:
            said = f"it needs {size(needed)} of memory, and no node of the Ray cluster offers more than {size(most)}"
            return Ending(said, "ray")
        return None

    @property
    def _gpus(self) -> int:
        return int(self.device.startswith("cuda"))


def perform(out: str, name: str, device: str, modules: Sequence[str] = ()) -> Ending:
    """On a worker: one attempt. It raises nothing when the run fails, so that Ray's errors mean that it was lost."""
    if threading.current_thread() is threading.main_thread():
        # Ray cancels by SIGINT, which is ignored on a node that a script started in the background (`ray start &`).
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return SupervisedTask(Path(out), name, device, modules).perform()


class _Head:
    """The process that knows the cluster. Without it no run is placed, and Ray ends all nodes after a while."""

    def __init__(self, address: str) -> None:
        self.address, self.heard = address, time.monotonic()

    def answers(self) -> bool:
        """Whether it takes a connection. Once it has been silent for long enough, runs on this machine that are ours
        save, and a DsaccError says that it is lost."""
        if listens(self.address, seconds=2.0):
            self.heard = time.monotonic()
            return True
        if time.monotonic() - self.heard > SILENCE:
            _save_own()
            raise DsaccError(
                f"the head of the Ray cluster {self.address} is lost: it has not answered for {SILENCE:.0f} s; what "
                "was saved is kept, and the same command continues, on a new cluster if it starts its own, else as "
                "soon as there is one again"
            )
        return False


def _save_own() -> None:
    """Ask the runs of a cluster that this process started to save, and give them the time to do it."""
    runs = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "dsacc.experiments.task" in process.cmdline():
                process.terminate()
                runs.append(process)
    psutil.wait_procs(runs, timeout=PATIENCE)


class _Nodes:
    """Says once of each node that it was lost."""

    def __init__(self, ray: Any) -> None:
        self.ray, self.known, self.looked = ray, living(ray), time.monotonic()

    def tell_lost(self) -> None:
        if time.monotonic() - self.looked > LOOK:
            now, self.looked = living(self.ray), time.monotonic()
            for node in self.known.keys() - now.keys():
                warnings.warn(f"node {self.known[node]} was lost; its runs continue on another node", stacklevel=2)
            self.known = now
