"""Candidates for a recipe against the preset they change: the table of a screen, at any time while it runs.

    dsacc experiment recipe-screen --out OUT
    python benchmarks/recipe.py OUT [OUT ...] [--baseline efficient] [--reference spr_100k] [--csv runs.csv]
    python benchmarks/recipe.py OUT [OUT ...] --curves 20000    # also what each run got in training, 20,000 steps each

Of a run that several folders plan, the one that is finished counts. Every candidate is a variant of the grid. It is
compared with the baseline in the same game with the same seed, in two figures: the area under the training curve (the
mean return of a step after the random ones) and the test score (the mean of sampled and greedy play). Both are
normalised by game, (score - random) / (reference - random). The rule by which a candidate helps is in
docs/studies/recipe.md. Runs that failed or are not finished are listed, not left out.
"""

import argparse
import csv
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dsacc.analysis.references import Scale, game_name, paper_table, reference_scores, scale
from dsacc.errors import DsaccError, RunError
from dsacc.experiments.plan import Plan, Run, read_plan
from dsacc.experiments.status import read_standings
from dsacc.experiments.tested import planned_rows
from dsacc.system.files import read_file
from dsacc.system.plain import MAX_BYTES, parse_json

WORST = -0.1  # the mean of a game's pairs below which a candidate does not help
REFERENCES = "human, paper (its DSAC-M at 1,000,000 steps), or an agent at 100,000 steps: spr_100k, drq_eps_100k, ..."


@dataclass(frozen=True)
class Result:
    """One finished run in raw scores."""

    area: float
    tests: dict[str, float]  # mean score by policy: sampled, greedy
    rows: tuple[dict[str, float | None], ...] = ()  # of metrics.jsonl

    @property
    def test(self) -> float:
        return float(np.mean(list(self.tests.values())))


@dataclass(frozen=True)
class Entry:
    """One run of the plan, finished or not."""

    run: Run
    state: str
    error: str
    result: Result | None


@dataclass(frozen=True)
class Pair:
    """A candidate's run beside the baseline's of the same game and seed, in normalised scores."""

    game: str
    seed: int
    area: float
    test: float

    @property
    def gain(self) -> float:
        """D of this pair: half the difference in area, half the difference in test score."""
        return (self.area + self.test) / 2


@dataclass(frozen=True)
class Verdict:
    """A candidate over all of its pairs."""

    label: str
    pairs: tuple[Pair, ...]
    planned: int
    below: int  # its tests below a random player's score
    below_baseline: int  # the baseline's in the same games and seeds

    @property
    def gain(self) -> float:
        return float(np.mean([pair.gain for pair in self.pairs])) if self.pairs else float("nan")

    @property
    def error(self) -> float:
        """Standard error of the mean gain."""
        gains = [pair.gain for pair in self.pairs]
        return float(np.std(gains, ddof=1) / len(gains) ** 0.5) if len(gains) > 1 else float("nan")

    @property
    def better(self) -> int:
        return sum(pair.gain > 0 for pair in self.pairs)

    def game(self, game: str) -> float:
        gains = [pair.gain for pair in self.pairs if pair.game == game]
        return float(np.mean(gains)) if gains else float("nan")

    @property
    def helps(self) -> str:
        """The rule of docs/studies/recipe.md, in words."""
        missing = self.planned - len(self.pairs)
        hopeless = 3 * (self.better + missing) < 2 * self.planned
        if missing:
            return (
                f"no: too few pairs ({len(self.pairs)} of {self.planned} run)"
                if hopeless
                else (f"open ({len(self.pairs)} of {self.planned})")
            )
        if not self.gain > self.error:
            return "no: D is within its error" if self.gain > 0 else "no"
        if hopeless:
            return "no: too few pairs"
        if (worst := min({pair.game for pair in self.pairs}, key=self.game)) and self.game(worst) < WORST:
            return f"no: {worst}"
        if self.below > self.below_baseline:
            return "no: more tests below random"
        return "**yes**"


def area(rows: Sequence[dict[str, float | None]], random_steps: int, until: float = float("inf")) -> float:
    """The mean over steps after the random ones of the training return; between two episodes' ends the last one counts.
    With `until`, over the steps up to that one.

    >>> area([{"step": 10, "return": 1.0}, {"step": 20, "return": None}, {"step": 40, "return": 4.0}], 0)
    2.5
    """
    total, weight, last, before = 0.0, 0, None, 0
    for row in rows:
        step = int(row["step"] or 0)
        last = row["return"] if row["return"] is not None else last
        if random_steps < step <= until and last is not None:
            total, weight = total + (step - before) * last, weight + step - before
        before = step
    return total / weight if weight else float("nan")


def read_folders(folders: Sequence[Path]) -> list[Entry]:
    """Every run that one of the folders plans, once: finished, if it is in any of them."""
    found: dict[str, Entry] = {}
    for out in folders:
        for entry in read_entries(read_plan(out), out):
            if entry.run.name not in found or found[entry.run.name].result is None:
                found[entry.run.name] = entry
    if len(steps := sorted({entry.run.steps for entry in found.values()})) > 1:
        raise RunError(f"runs of {' and '.join(f'{n:,}' for n in steps)} steps cannot be compared")
    return list(found.values())


def read_entries(plan: Plan, out: Path) -> list[Entry]:
    """Every run of the plan with how it stands and, where it is finished and tested, its result."""
    standings = {standing.run: standing for standing in read_standings(out)}
    entries = []
    for run in plan.runs:
        standing, folder = standings[run.name], out / "runs" / run.name
        rows = [r for r in planned_rows(run, run, plan.tests, folder) if r.step == run.steps and r.shift == "id"]
        tests = {row.policy: row.mean for row in rows}
        result = None
        if set(tests) == set(plan.tests.policy):
            lines = read_file(folder / "metrics.jsonl", MAX_BYTES).decode().splitlines()
            logged = tuple(parse_json(line) for line in lines)
            result = Result(area(logged, run.config.random_steps), tests, logged)
        entries.append(Entry(run, standing.state, standing.error or "", result))
    return entries


def scale_of(env: str, reference: str) -> Scale:
    """What 0 and 1 stand for in a game."""
    if (usual := scale(env)) is None:
        raise RunError(f"there are no reference scores for {env}")
    if reference == "human":
        return usual
    game = game_name(env)
    known = dict(reference_scores()[game].published) if game in reference_scores() else {}
    if (paper := paper_table().get((game, "id", "dsac-m"))) is not None:
        known["paper"] = paper.mean
    if reference not in known:
        raise RunError(f"there is no score of {reference!r} in {env}; there is {', '.join(['human', *known])}")
    return Scale(usual.random, known[reference], reference)


def verdicts(entries: Sequence[Entry], baseline: str, reference: str) -> list[Verdict]:
    """One per candidate, the best first; those without a pair at the end."""
    by_key = {(e.run.label, e.run.env, e.run.seed): e.result for e in entries}
    labels = list(dict.fromkeys(e.run.label for e in entries))
    if baseline not in labels:
        raise RunError(f"the experiment has no variant {baseline!r}; it has {', '.join(labels)}")
    places = list(dict.fromkeys((e.run.env, e.run.seed) for e in entries))
    scales = {game: scale_of(game, reference) for game, _ in places}
    found = []
    for label in [label for label in labels if label != baseline]:
        pairs, below = list[Pair](), [0, 0]
        for game, seed in places:
            ours, theirs = by_key.get((label, game, seed)), by_key.get((baseline, game, seed))
            if ours is None or theirs is None:
                continue
            unit = scales[game].top - scales[game].random
            pairs.append(Pair(game, seed, (ours.area - theirs.area) / unit, (ours.test - theirs.test) / unit))
            for side, result in enumerate((ours, theirs)):
                below[side] += sum(score < scales[game].random for score in result.tests.values())
        planned = sum(e.run.label == label for e in entries)
        found.append(Verdict(label, tuple(pairs), planned, *below))
    return sorted(found, key=lambda v: (not v.pairs, -v.gain if v.pairs else 0.0))


def table(found: Sequence[Verdict]) -> str:
    """The candidates, sorted by D."""
    games = list(dict.fromkeys(pair.game for verdict in found for pair in verdict.pairs))
    head = ["candidate", "D", "area", "test", "pairs better", *games, "tests below random (baseline)", "helps"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for v in found:
        mean = {name: np.mean([getattr(pair, name) for pair in v.pairs] or [np.nan]) for name in ("area", "test")}
        cells = [v.label, f"{v.gain:+.3f} ± {v.error:.3f}", f"{mean['area']:+.3f}", f"{mean['test']:+.3f}"]
        cells += [f"{v.better} of {len(v.pairs)}", *(f"{v.game(game):+.3f}" for game in games)]
        lines.append("| " + " | ".join([*cells, f"{v.below} ({v.below_baseline})", v.helps]) + " |")
    return "\n".join(lines).replace("+nan ± nan", "").replace("± nan", "").replace("+nan", "")


def scores(entries: Sequence[Entry]) -> str:
    """Raw scores of every run by game: area, sampled, greedy; or how it stands."""
    places = list(dict.fromkeys((e.run.env, e.run.seed) for e in entries))
    head = ["candidate", *(f"{game}, seed {seed}" for game, seed in places)]
    rows: dict[str, dict[tuple[str, int], str]] = defaultdict(dict)
    for e in entries:
        said = (
            e.state if e.result is None else " / ".join(f"{x:,.1f}" for x in (e.result.area, *e.result.tests.values()))
        )
        rows[e.run.label][e.run.env, e.run.seed] = said
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += [
        "| " + " | ".join([label, *(row.get(place, "") for place in places)]) + " |" for label, row in rows.items()
    ]
    return "\n".join(lines)


def curves(entries: Sequence[Entry], each: int) -> str:
    """What every finished run got in training over each so many steps, the random ones left out, and its tests."""
    done = [(e.run, e.result) for e in entries if e.result is not None]
    ends = range(each, max((run.steps for run, _ in done), default=0) + 1, each)
    policies = list(done[0][1].tests) if done else []
    head = ["candidate", "run", *(f"to {end:,}" for end in ends), *policies]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for run, result in sorted(done, key=lambda pair: (pair[0].env, pair[0].seed)):
        parts = [area(result.rows, max(end - each, run.config.random_steps), end) for end in ends]
        figures = [f"{x:,.1f}" for x in (*parts, *result.tests.values())]
        lines.append("| " + " | ".join([run.label, f"{run.env}, seed {run.seed}", *figures]) + " |")
    return "\n".join(lines)


def write_csv(entries: Sequence[Entry], path: Path) -> None:
    """One line per run, to keep beside the study."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["candidate", "game", "seed", "steps", "run", "state", "area", "sampled", "greedy"])
        for e in entries:
            tests = {} if e.result is None else e.result.tests
            figures = ["" if e.result is None else e.result.area, tests.get("sampled", ""), tests.get("greedy", "")]
            writer.writerow([e.run.label, e.run.env, e.run.seed, e.run.steps, e.run.name, e.state, *figures])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="+", metavar="OUT", help="folders of experiments")
    parser.add_argument("--baseline", default="efficient", help="label that the others are compared with")
    parser.add_argument("--reference", default="spr_100k", help=REFERENCES)
    parser.add_argument(
        "--curves", type=int, metavar="STEPS", help="also print training returns over each so many steps"
    )
    parser.add_argument("--csv", type=Path, help="write every run to this file too")
    args = parser.parse_args(arguments)
    if args.curves is not None and args.curves < 1:
        parser.error(f"--curves must be at least 1, not {args.curves}")
    try:
        entries = read_folders(args.out)
        found = verdicts(entries, args.baseline, args.reference)
    except DsaccError as error:
        print(f"recipe.py: {error}", file=sys.stderr)
        return 2
    done = sum(e.result is not None for e in entries)
    print(f"{done} of {len(entries)} runs are finished and tested. Normalised by {args.reference}.\n\n{table(found)}\n")
    policies = next((list(e.result.tests) for e in entries if e.result is not None), [])
    print(f"Raw scores: {' / '.join(['area under the training curve', *policies])}\n\n{scores(entries)}")
    if args.curves:
        print(f"\nReturn in training over each {args.curves:,} steps, then tests\n\n{curves(entries, args.curves)}")
    for e in [e for e in entries if e.error]:
        print(f"\n{e.run.label}, {e.run.env}, seed {e.run.seed}: {e.state}: {e.error}")
    if args.csv:
        write_csv(entries, args.csv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
