"""A Ray cluster: one task per run, with what it needs. Ray places it, and says what was lost with its node."""

import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dsacc.experiments.backends.base import Attempt, Backend, Ending
from dsacc.experiments.backends.cluster import check_nodes, connected, living
from dsacc.experiments.backends.process import PATIENCE
from dsacc.experiments.backends.supervised import SupervisedTask
from dsacc.experiments.task import TaskFile
from dsacc.system.text import size

POLL = 0.5  # seconds that one poll waits for an ending
LOOK = 5.0  # seconds between two looks at the nodes


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
            self._nodes = _Nodes(self._ray)
            yield

    def submit(self, attempt: Attempt) -> Any:
        needs = {"num_cpus": 1, "num_gpus": self._gpus, "memory": attempt.memory}
        # Ray would repeat what was lost without a word; the scheduler does it, and counts.
        remote = self._ray.remote(perform).options(name=attempt.name, **needs, max_retries=0)
        return remote.remote(str(attempt.out.absolute()), attempt.name, self.device, attempt.run.modules)

    def poll(self, running: Mapping[Any, Attempt]) -> dict[Any, Ending]:
        self._nodes.tell_lost()
        return {task: self._ending(task, running[task]) for task in self._ray.wait(list(running), timeout=POLL)[0]}

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
