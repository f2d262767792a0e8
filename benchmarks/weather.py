"""Snow, rain and fog beside imgaug 0.4.0, which drew the paper's: the same figures over many draws, and the time.

imgaug needs an old NumPy, so it runs in an environment of its own (`make weather-oracle` makes it) and hands over its
figures as .npz. Exit code 1 if a median differs by more than 10 %, or if a kind is not 50 times as fast.
Times are of one thread on either side, in short slices by turns: this way noise from the machine falls on both alike.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from scipy import stats
from weather_imgaug import BLACK, KINDS, SHAPE, WHITE, Array, Draw, frame, many

from dsacc.shifts import Bank, bank, find_kind

OTHER = Path(__file__).with_name("weather_imgaug.py")
MOST_OFF, LEAST_RATIO, BANK = 0.10, 50, 256


def make_bank(kind: str, size: int = BANK) -> Bank:
    """Draws made beforehand, as an environment keeps them."""
    return bank(find_kind(kind), None, SHAPE, 0, size).fill()


def draw_of(kind: str) -> Draw:
    rng = np.random.default_rng(1)

    def draw(both: bool) -> tuple[Array, Array]:
        change = find_kind(kind).draw(rng, SHAPE, None)
        return change(BLACK), change(WHITE) if both else WHITE

    return draw


def compare(console: Console, python: str, draws: int) -> bool:
    """A table of all figures; True if every median agrees."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imgaug.npz"
        subprocess.run([python, OTHER, "figures", path, str(draws)], check=True)
        with np.load(path, allow_pickle=False) as stored:
            theirs = {name: stored[name] for name in stored.files}
    ours = {name: values for kind in KINDS for name, values in many(kind, draw_of(kind), draws).items()}
    title = f"{draws} draws on {SHAPE[0]}x{SHAPE[1]}: percentiles 5 / 50 / 95"
    table = Table("kind", "figure", "imgaug", "dsacc", "median", "KS", "W / std", title=title, box=box.SIMPLE)
    good = True
    for name, theirs_N in theirs.items():
        at = [np.percentile(values, (5, 50, 95)) for values in (theirs_N, ours[name])]
        ratio = at[1][1] / at[0][1]
        good &= bool(abs(ratio - 1) <= MOST_OFF)
        away = stats.wasserstein_distance(theirs_N, ours[name]) / theirs_N.std()
        ks = stats.ks_2samp(theirs_N, ours[name]).statistic
        shown = [" / ".join(f"{value:.3g}" for value in each) for each in at]
        table.add_row(*name.split("/"), *shown, f"x {ratio:.3f}", f"{ks:.3f}", f"{away:.3f}")
    console.print(table)
    chance = 1.36 * (2 / draws) ** 0.5
    console.print(f"KS up to {chance:.3f} is chance (5 %); medians may differ by {MOST_OFF:.0%}.")
    return good


def race(console: Console, python: str, rounds: int) -> bool:
    """A table of times; True if all are fast enough."""
    cv2.setNumThreads(1)
    picture, rng = frame(), np.random.default_rng(2)
    table = Table(
        "kind",
        "imgaug ms",
        "dsacc ms",
        "ratio",
        "falling ms",
        "bank MB",
        "bank ready s",
        title="One frame",
        box=box.SIMPLE,
    )
    good = True
    worker = subprocess.Popen([python, OTHER, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdin is not None
    assert worker.stdout is not None
    for kind in KINDS:
        start = time.perf_counter()
        members = make_bank(kind)
        ready = time.perf_counter() - start
        times: dict[str, list[float]] = {"imgaug": [], "dsacc": [], "falling": []}
        for _ in range(rounds):
            print(kind, 20, file=worker.stdin, flush=True)
            times["imgaug"].append(float(worker.stdout.readline()) / 20)
            for name, frames in (("dsacc", np.zeros(500, int)), ("falling", rng.integers(1, 10_000, 500))):
                chosen = [
                    (members[int(i)], int(t)) for i, t in zip(rng.integers(len(members), size=500), frames, strict=True)
                ]
                start = time.perf_counter()
                for change, t in chosen:
                    change(picture, t)
                times[name].append((time.perf_counter() - start) / len(chosen))
        ms = {name: 1e3 * statistics.median(values) for name, values in times.items()}
        ratio = ms["imgaug"] / ms["dsacc"]
        good &= ratio >= LEAST_RATIO
        size = members.nbytes / 1e6
        shown = f"{ms['imgaug']:.2f}", f"{ms['dsacc']:.3f}", f"{ratio:.0f}", f"{ms['falling']:.3f}"
        table.add_row(kind, *shown, f"{size:.0f}", f"{ready:.1f}")
    worker.stdin.close()
    worker.wait()
    console.print(table)
    console.print(
        f"A bank of {BANK} draws, one at random for each frame (falling: at a random time). One thread each, medians "
        f"of {rounds} slices by turns. At least {LEAST_RATIO} times as fast is asked for."
    )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", required=True, help="the Python that has imgaug 0.4.0")
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    console = Console()
    good = compare(console, args.oracle, args.draws), race(console, args.oracle, args.rounds)
    for fine, complaint in zip(good, ("a median is off", "not fast enough"), strict=True):
        if not fine:
            console.print(f"[red]{complaint}")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
