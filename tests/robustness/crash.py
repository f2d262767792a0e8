"""Kill commands at random moments; the same command goes on, and every ending must be that of one never killed.

    python tests/robustness/crash.py --kills 60        (also: make crash-test KILLS=60)

For each job one command is left alone: a fresh `python -m dsacc`. Others are killed several times, called again each
time, and compared with it by hash when they finish: every file but those with times and process ids. The moments come
from the seed, which is printed. Each line says how far it is, so the output of a long run can be read at any time.

train, harden and evaluate are killed at any moment, at the beginning of a continuation, and right before a random one
of their changes to files, half of a file written; by kill -9 and by other signals. Of an experiment the command, one of
its runs, or all of its processes at once are killed, and on Ray also any process of the cluster. None may be left.
"""

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", RAY_USAGE_STATS_ENABLED="0")
sys.path.insert(0, str(Path(__file__).parents[1]))

from robustness import torn, warm

MOMENTS = ("a change to a file", "any moment", "a change to a file", "a continuation")
KILLS_A_RUN = 8
NOT_COMPARED = ("timing.jsonl", "status.json", "lock")  # times and process ids
TRAIN = "--steps 120 --random-steps 40 --batch-size 4 --hidden 32 --log-every 20 --checkpoint-every 20"
TRAIN += " --replay-size 80"
HARDEN = "--updates 60 --states 128 --checkpoint-every 10"
EVALUATE = "--shifts id snow rain fog --severity paper 3 --episodes 3 --policy greedy sampled"


def fingerprint(run: Path) -> dict[str, str]:
    """Every file of a folder that must be equal, with its hash."""
    files = (p for p in run.rglob("*") if p.is_file() and p.name not in NOT_COMPARED)
    return {str(p.relative_to(run)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(files)}


@dataclass
class Job:
    """A command without its folder, which is where `OUT` stands. `begins` is a folder that it starts from."""

    part: str
    name: str
    words: list[str]
    begins: Path | None = None
    typical: float = 2.0  # seconds; measured when it is first performed
    changes: int = 60  # to files; counted then, too
    wanted: dict[str, str] = field(default_factory=dict)  # the fingerprint of an undisturbed end

    def line(self, out: Path) -> list[str]:
        return [str(out) if word == "OUT" else word for word in self.words]

    def begin(self, out: Path) -> None:
        if self.begins is not None:
            shutil.copytree(self.begins, out)

    def settle(self, folder: Path) -> None:
        """Perform it twice undisturbed: as a user does, and as a fork; both must end the same."""
        cold, fork = folder / "whole", folder / "fork"
        self.begin(cold)
        ended = subprocess.run([sys.executable, "-m", "dsacc", *self.line(cold)], capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        self.wanted = fingerprint(cold)
        self.begin(fork)
        began = time.monotonic()
        done = warm.perform(self.line(fork), folder / "log", random.Random(0), "never", 0.0, 0)
        assert done.code == 0, done.said
        assert fingerprint(fork) == self.wanted, f"{self.name}: a fork ends otherwise than a fresh process"
        self.typical, self.changes = time.monotonic() - began, done.changes
        shutil.rmtree(cold)
        shutil.rmtree(fork)

    def disturb(self, folder: Path, out: Path, rng: random.Random, kills: int, hows: list[str]) -> None:
        """Kill it up to so many times, then let it end. `hows` is told what killed it."""
        self.begin(out)
        for k in range(kills):
            share = self.typical / 3 if k < kills - 1 else self.typical
            death = warm.perform(
                self.line(out), folder / "log", rng, rng.choice(MOMENTS), share, max(self.changes // 3, 4)
            )
            assert death.how or death.code == 0, death.said
            assert "Traceback" not in death.said or death.code < 0, death.said
            hows += [death.how] if death.killed else []
        for _ in range(2):  # the second finds it finished, and changes nothing
            ended = warm.perform(self.line(out), folder / "log", rng, "never", 0.0, 0)
            assert ended.code == 0, ended.said


def jobs_of(part: str, folder: Path) -> list[Job]:
    """The jobs of train, harden or evaluate."""
    games = ("Breakout", "dsacc/Catch-v0", "minatar/Seaquest")
    if part == "train":
        agents = ("dsac", "dsac-m", "dsac-v")
        train = [(env, agent) for agent in agents for env in games]
        return [Job(part, f"{a} {e}", ["train", e, "--agent", a, "--out", "OUT", *TRAIN.split()]) for e, a in train]
    if part == "harden":
        from dsacc import DSAC

        teacher = str(DSAC(games[1], "mean", picture_filter="high-pass", hidden=32).save(folder / "teacher"))
        return [Job(part, games[1], ["harden", teacher, "--env", games[1], "--out", "OUT", *HARDEN.split()])]
    begins, words = folder / "trained", ["evaluate", "OUT", *EVALUATE.split()]
    train = ["train", games[1], "--out", str(begins), *TRAIN.split()]
    subprocess.run([sys.executable, "-m", "dsacc", *train], check=True, capture_output=True)
    return [Job(part, games[1], words, begins)]


class Account:
    """Kills that were made and what became of them."""

    def __init__(self, wanted: int, keep: Path) -> None:
        self.wanted, self.keep = wanted, keep
        self.kills, self.equal, self.failed = 0, 0, 0
        self.hows: Counter[str] = Counter()
        self.began = time.monotonic()

    def note(self, name: str, out: Path, hows: list[str], different: list[str]) -> None:
        self.kills += len(hows)
        self.hows.update(hows)
        self.equal += 0 if different else len(hows)
        word = "DIFFERENT" if different else "equal"
        print(f"[{self.kills}/{self.wanted}] {word}: {name}, killed {len(hows)} times: {'; '.join(hows)}", flush=True)
        if different:  # also where it did not come to its end
            self.failed += 1
            kept = self.keep / f"{self.failed}"
            if out.exists():
                shutil.copytree(out, kept, dirs_exist_ok=True)
            print(f"  differs in {different[:8]}; kept in {kept}", flush=True)

    def summary(self) -> str:
        minutes, cpu = (time.monotonic() - self.began) / 60, sum(os.times()[:4]) / 60
        hows = ", ".join(f"{count} {how}" for how, count in sorted(self.hows.items()))
        took = f"{minutes:.0f} minutes, {cpu:.0f} of a processor"
        return f"{self.equal} of {self.kills} kills ended in the same bytes ({took}): {hows}"


def differences(found: dict[str, str], wanted: dict[str, str]) -> list[str]:
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))


def warm_part(part: str, folder: Path, kills: int, rng: random.Random, account: Account) -> None:
    """Kill the jobs of a part in turn, until there are enough kills."""
    jobs, done, number = jobs_of(part, folder), 0, 0
    for i, job in enumerate(jobs):
        place = folder / f"settle-{i}"
        place.mkdir()
        if kills > i * KILLS_A_RUN:  # else its turn does not come
            job.settle(place)
    while done < kills:
        job, place = jobs[number % len(jobs)], folder / f"{number}"
        place.mkdir()
        number += 1
        out, hows = place / "run", []
        try:
            job.disturb(place, out, rng, min(KILLS_A_RUN, kills - done), hows)
            account.note(f"{part} {job.name}", out, hows, differences(fingerprint(out), job.wanted))
        except AssertionError as error:
            account.note(f"{part} {job.name}", out, hows, [f"no ending: {error}"])
            done += 1  # it must end some time, however little is killed
        done += len(hows)
        shutil.rmtree(place)


def experiment_part(part: str, folder: Path, kills: int, rng: random.Random, account: Account) -> None:
    """The same for experiments, whose processes are killed by name of their role."""
    backend, done, number = part.removeprefix("experiment-"), 0, 0
    whole = folder / "whole"
    torn.undisturbed(folder, whole)
    wanted = torn.contents(whole)
    while done < kills:
        out = folder / f"{number}"
        number += 1
        hows: list[str] = []
        try:
            torn.disturb(folder, out, backend, rng, min(4, kills - done), hows)
            account.note(part, out, hows, differences(torn.contents(out), wanted))
        except (AssertionError, subprocess.TimeoutExpired) as error:
            account.note(part, out, hows, [f"no ending: {error}"])
            done += 1  # it must end some time, however little is killed
        done += len(hows)
        shutil.rmtree(out, ignore_errors=True)


Part = Callable[[str, Path, int, random.Random, Account], None]
PARTS: dict[str, tuple[float, Part]] = {  # which share of the kills is theirs
    "experiment-local": (0.07, experiment_part),
    "experiment-ray": (0.03, experiment_part),
    "evaluate": (0.18, warm_part),
    "harden": (0.12, warm_part),
    "train": (0.60, warm_part),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60, help="kills in all (default: 60)")
    parser.add_argument("--seed", type=int, default=None, help="of the moments (default: another one each time)")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="parts (default: all)")
    parser.add_argument("--keep", type=Path, default=Path("crash-kept"), help="for folders that end otherwise")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    print(f"{args.kills} kills of {', '.join(args.only)}; --seed {seed}", flush=True)
    warm.prepare()
    account, total = Account(args.kills, args.keep), sum(PARTS[part][0] for part in args.only)
    with tempfile.TemporaryDirectory(prefix="dsacc-crash-", dir="/tmp") as folder:
        for i, part in enumerate(args.only, start=1):
            share, perform = PARTS[part]
            goal = round(args.kills * share / total) if i < len(args.only) else args.kills - account.kills
            place = Path(folder) / part
            place.mkdir()
            perform(part, place, max(goal, 1), random.Random(f"{seed} {part}"), account)
    print(account.summary())
    return 0 if not account.failed and account.kills >= args.kills else 1


if __name__ == "__main__":
    sys.exit(main())
