"""A Ray cluster: one task a run, with its needs; what a lost node had begun goes on on another one."""

import signal
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsacc.errors import Stopped
from dsacc.experiments.backends import Outcome
from dsacc.experiments.backends.attempt import Attempt, Report
from dsacc.experiments.backends.cluster import check_nodes, connected, living
from dsacc.experiments.backends.local import PATIENCE, memory_of
from dsacc.experiments.plan import Plan
from dsacc.system.signals import StopSignals
from dsacc.system.text import size

LOSSES = 20  # nodes or workers that one attempt may lose; a run's own failure never counts here
POLL = 0.5  # seconds between two looks at the signals
LOOK = 5.0  # seconds between two looks at the nodes


@dataclass
class _Task:
    name: str
    number: int  # of the attempt
    before: float  # seconds of earlier ones


class _Nodes:
    """Says once of each node that it was lost."""

    def __init__(self, ray: Any) -> None:
        self.ray, self.known, self.looked = ray, living(ray), time.monotonic()

    def tell_lost(self) -> None:
        if time.monotonic() - self.looked > LOOK:
            now, self.looked = living(self.ray), time.monotonic()
            for node in self.known.keys() - now.keys():
                warnings.warn(f"node {self.known[node]} was lost; its runs go on on another", stacklevel=2)
            self.known = now


class OnRay:
    """Ray Core tasks. Ray places them and repeats those of lost nodes; a run that fails by itself is repeated here."""

    def __init__(
        self,
        workers: int | None = None,
        retries: int = 1,
        device: str = "cpu",
        address: str | None = None,
        allow_open: bool = False,
    ) -> None:
        self.workers, self.retries, self.device = workers, retries, device
        self.address, self.allow_open = address, allow_open

    def execute(self, plan: Plan, out: Path, names: Sequence[str], told: Callable[[Outcome], None]) -> None:
        out = out.absolute()  # workers have another working directory
        with connected(self.address, self.workers, self.allow_open) as ray:
            check_nodes(ray, out)
            waiting = []
            for name in names:
                if lacking := self._lacking(ray, memory_of(plan[name])):
                    told(Outcome(name, False, lacking, 0.0, 1, "ray"))
                else:
                    waiting.append(_Task(name, 1, 0.0))
            with StopSignals(active=True) as signals:
                self._work(ray, plan, out, waiting, told, signals)

    def _work(
        self,
        ray: Any,
        plan: Plan,
        out: Path,
        waiting: list[_Task],
        told: Callable[[Outcome], None],
        signals: StopSignals,
    ) -> None:
        running: dict[Any, _Task] = {}
        nodes = _Nodes(ray)
        try:
            while waiting or running:
                signals.check()
                nodes.tell_lost()
                while waiting and len(running) < (self.workers or len(plan.runs)):
                    task = waiting.pop(0)
                    running[self._submit(ray, plan, out, task.name)] = task
                for reference in ray.wait(list(running), timeout=POLL)[0]:
                    task = running.pop(reference)
                    outcome = _outcome(ray, reference, task)
                    if outcome.ok or task.number > self.retries:
                        told(outcome)
                    else:
                        waiting.append(_Task(task.name, task.number + 1, outcome.seconds))
        except Stopped as stopped:
            for reference in running:
                ray.cancel(reference, force=False)  # interrupts a worker, which has its run save
            if running:
                ray.wait(list(running), num_returns=len(running), timeout=PATIENCE + POLL)
            if stopped.signal == signal.SIGINT:
                raise KeyboardInterrupt from stopped
            raise

    def _submit(self, ray: Any, plan: Plan, out: Path, name: str) -> Any:
        remote = ray.remote(perform).options(
            name=name,
            num_cpus=1,
            num_gpus=self._gpus,
            memory=memory_of(plan[name]),
            max_retries=LOSSES,
            retry_exceptions=False,
        )
        return remote.remote(str(out), name, self.device)

    @property
    def _gpus(self) -> int:
        return int(self.device.startswith("cuda"))

    def _lacking(self, ray: Any, memory: int) -> str | None:
        """What no node has, and Ray would wait for without a word."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(node.get("CPU", 0) >= 1 and node.get("GPU", 0) >= self._gpus for node in nodes):
            return f"no node of the Ray cluster has a CPU{' and a GPU' if self._gpus else ''} for it"
        most = max(int(node.get("memory", 0)) for node in nodes)
        if memory > most:
            return f"it needs {size(memory)} of memory, and no node of the Ray cluster offers more than {size(most)}"
        return None


def perform(out: str, name: str, device: str) -> Report:
    """On a worker: one attempt. Raises nothing of the run's, so that Ray repeats only what was lost."""
    if threading.current_thread() is threading.main_thread():
        # Ray cancels by an interrupt, which is ignored on a node that a script began in the background (`ray start &`).
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return Attempt(Path(out), name, device).perform()


def _outcome(ray: Any, reference: Any, task: _Task) -> Outcome:
    try:
        report: Report = ray.get(reference)
    except ray.exceptions.RayError as error:
        said = f"Ray could not finish it: {' '.join(str(error).split())[:300]}"
        return Outcome(task.name, False, said, task.before, task.number, "ray")
    seconds = task.before + report.seconds
    return Outcome(task.name, report.error is None, report.error, seconds, task.number, report.node)
