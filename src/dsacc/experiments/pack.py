"""The results of an experiment as one small file: what a reader of its numbers needs, without agents and memories."""

import gzip
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dsacc.errors import RunError
from dsacc.experiments.plan import Plan, read_plan
from dsacc.experiments.task import TaskFile, folder_of, is_done
from dsacc.system.files import read_file, write_atomically

KEPT = ("config.json", "status.json", "*.jsonl", "evaluations/*.json")  # of a run's folder


@dataclass(frozen=True)
class Packed:
    """What `pack_results` wrote."""

    path: Path
    bytes: int
    runs: int  # finished, and so in the file
    planned: int


def pack_results(out: Path, path: Path) -> Packed:
    """Write the plan of the experiment in OUT and all finished runs, with their settings, curves and rows, to a .tar.gz
    file. The same results give the same bytes.

    Unpacked anywhere, the folder can be read by `report` and `status`, and `experiment` goes on with the runs that are
    missing. Agents, checkpoints and replay memories are not in it, so a run in it cannot be played or trained further.
    """
    if not (out / "plan.json").is_file():
        raise RunError(f"{out} holds no experiment; `dsacc experiment` creates them")
    plan = read_plan(out)
    name = out.resolve().name
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        done = 0
        for finished, files in _contents(plan, out):
            done += finished
            for file in files:
                content = read_file(file)
                entry = tarfile.TarInfo(f"{name}/{file.relative_to(out).as_posix()}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    if not done:
        raise RunError(f"no run of {out} is finished yet; `dsacc status {out}` shows their progress")
    write_atomically(path, packed.getvalue())
    return Packed(path, len(packed.getvalue()), done, len(plan.runs))


def _contents(plan: Plan, out: Path) -> Iterator[tuple[bool, list[Path]]]:
    """The plan's own file, then the files of each run that is done; whether they belong to a run."""
    yield False, [out / "plan.json"]
    for run in plan.runs:
        if is_done(run, plan.tests, out):
            folders = [folder_of(out, what) for what in run.family]
            found = [file for folder in folders for kind in KEPT for file in sorted(folder.glob(kind))]
            yield True, [TaskFile(out, run.name).path, *found]
