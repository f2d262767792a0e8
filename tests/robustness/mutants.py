"""Changes the code a little, many times over, and sees whether the tests of the room notice: `make mutants`.

It takes a sample of all possible changes (`mutations.py`) of each room, makes one at a time in a copy of `src`, and
runs the tests that reach the changed line until one fails. What survives is in `.mutants/report.md`. `survivors.toml`
beside this file says why some may; an entry that no longer survives is reported, too.

Results are kept in `.mutants/`, and the next call goes on where the last one was stopped. Of the same seed, a larger
sample contains a smaller one. A survivor is tried again once the tests of its room have changed. A test that fails
without any change, as one of times may on a busy machine, is named and left out.

The existing tools do not serve here. mutmut 3.8 works on this layout and forks as well, but it changes nothing at the
top of a module and nothing in a function with a decorator, among them properties and all that runs without gradients;
it leaves out no statement, and draws no sample. cosmic-ray 8.7 edits the files in place and starts a new Python for
each change, which imports torch and runs all tests of the room.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robustness.mutants_worker import Bench
from robustness.mutations import Mutant, mutants_of

HOME = Path(__file__).parents[2]
# By room: its sources and its tests.
ROOMS = {
    "maths": ("src/dsacc/maths", "tests/maths"),
    "agent": ("src/dsacc/agent", "tests/agent"),
    "replay": ("src/dsacc/replay", "tests/replay"),
    "training": ("src/dsacc/training", "tests/training"),
    "runs": ("src/dsacc/runs", "tests/runs"),
    "statistics": ("src/dsacc/analysis/statistics.py", "tests/analysis"),
    "rollout": ("src/dsacc/play/rollout.py", "tests/play"),
}
AIM = 0.9  # the share that should be noticed, in each room
NOTICED = ("caught", "timed out")
Result = dict[str, Any]


def files_of(place: str, home: Path = HOME) -> list[Path]:
    return sorted((home / place).rglob("*.py")) if (home / place).is_dir() else [home / place]


def sampled(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """The first of an order that depends on each mutant and the seed alone: other code changes little in it."""
    return sorted(mutants, key=lambda mutant: digest(f"{seed}\n{mutant.name}"))[:count]


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


class Kept:
    """Results of earlier calls, one JSON object per line. Later lines replace earlier ones."""

    def __init__(self, path: Path) -> None:
        self.path, self.results = path, dict[str, Result]()
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                result = json.loads(line)
                self.results[result["name"]] = result
            except (ValueError, KeyError):  # the last line of a call that was killed
                continue

    def find(self, mutant: Mutant, source: str, tests: str) -> Result | None:
        """What is known of it: of the same source; of a survivor, with the same tests too."""
        found = self.results.get(mutant.name)
        if found is None or found["source"] != source:
            return None
        return found if found["verdict"] in NOTICED or found["tests"] == tests else None

    def add(self, result: Result) -> None:
        self.results[result["name"]] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(result) + "\n")


def run_room(room: str, count: int, seed: int, kept: Kept, home: Path = HOME) -> list[Result]:
    """The result of each mutant of the sample, in the order of the files."""
    place, tests = ROOMS[room]
    sources = {str(path.relative_to(home)): path.read_text() for path in files_of(place, home)}
    state = digest(*(path.read_text() for path in files_of(tests, home)))
    whole = [mutant for path, source in sources.items() for mutant in mutants_of(source, path)]
    chosen = sampled(whole, count, seed)
    known = {m.name: kept.find(m, digest(sources[m.path]), state) for m in chosen}
    todo = [m for m in chosen if known[m.name] is None]
    print(f"{room}: {len(chosen)} of {len(whole)} mutants (seed {seed}), {len(todo)} of them to be tried", flush=True)
    if todo:
        with Bench(home, place, tests, kept.path.parent) as bench:
            for i, mutant in enumerate(todo, 1):
                began = time.monotonic()
                compile(mutant.applied(sources[mutant.path]), mutant.path, "exec")  # else the mistake is ours
                verdict, by = bench.try_one(mutant, sources[mutant.path])
                about = {"name": mutant.name, "source": digest(sources[mutant.path]), "tests": state}
                shown = {k: v for k, v in asdict(mutant).items() if k in ("path", "function", "line", "operator")}
                result = {**about, **shown, "before": mutant.before, "after": mutant.after}
                kept.add({**result, "room": room, "verdict": verdict, "by": by})
                took = time.monotonic() - began
                where = f"{mutant.path}:{mutant.line}"
                print(f"  {i}/{len(todo)} {verdict:9} {took:5.1f} s  {where}  {mutant.after[:90]}", flush=True)
    # The line is that of today, where the code above has changed.
    return sorted(
        ({**kept.results[m.name], "line": m.line} for m in chosen), key=lambda result: (result["path"], result["line"])
    )


# --- what is written -------------------------------------------------------------------------------------------------


def read_reasons(path: Path) -> dict[tuple[str, str, str, str], str]:
    """Why some may survive, by file, function, line before and line after."""
    if not path.exists():
        return {}
    entries = tomllib.loads(path.read_text()).get("survivor", [])
    return {(e["file"], e["function"], e["before"], e["after"]): e["reason"] for e in entries}


def entry_of(result: Result) -> tuple[str, str, str, str]:
    return result["path"].removeprefix("src/dsacc/"), result["function"], result["before"], result["after"]


def outdated(reasons: dict[tuple[str, str, str, str], str], results: Sequence[Result], home: Path) -> list[str]:
    """A sentence for each entry that a test notices by now, or whose code is not there any more."""
    noticed = {entry_of(r): r["by"] for r in results if r["verdict"] in NOTICED}
    said = []
    for entry in reasons:
        path, function, before, after = entry
        source = home / "src/dsacc" / path
        found = mutants_of(source.read_text(), f"src/dsacc/{path}") if source.exists() else []
        if entry in noticed:
            said.append(f"{path}: `{after}` is noticed by now ({noticed[entry]}); remove its entry")
        elif not any((m.function, m.before, m.after) == (function, before, after) for m in found):
            said.append(f"{path}: `{before}` in `{function}` is not there any more; remove its entry")
    return said


def report(by_room: dict[str, list[Result]], reasons: dict[tuple[str, str, str, str], str], seed: int) -> str:
    """A table by room, and every survivor with its reason."""
    lines = [f"# Mutants, seed {seed}", "", "| room | mutants | caught | timed out | survived | noticed |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for room, results in by_room.items():
        counts = Counter(result["verdict"] for result in results)
        survived = counts["survived"] + counts["unreached"]
        numbers = f"{len(results)} | {counts['caught']} | {counts['timed out']} | {survived}"
        lines.append(f"| {room} | {numbers} | {share(results):.0%} |")
    for room, results in by_room.items():
        left = [result for result in results if result["verdict"] not in NOTICED]
        lines += ["", f"## {room}", ""] if left else []
        for one in left:
            why = reasons.get(entry_of(one)) or "**no reason is known**"
            unreached = ", which no test reaches" if one["verdict"] == "unreached" else ""
            lines.append(f"- {one['path']}:{one['line']} in `{one['function']}` ({one['operator']}){unreached}: {why}")
            lines += ["  ```diff", f"  - {one['before']}", f"  + {one['after']}", "  ```"]
    return "\n".join(lines) + "\n"


def share(results: Sequence[Result]) -> float:
    return sum(result["verdict"] in NOTICED for result in results) / max(len(results), 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1: in some room fewer are noticed than we aim for, or an entry of survivors.toml is outdated."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"any of {', '.join(ROOMS)} (default: all)")
    parser.add_argument("--sample", type=int, default=50, help="mutants per room (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    parser.add_argument("--out", type=Path, default=HOME / ".mutants", help="folder for results (default: .mutants)")
    args = parser.parse_args(argv)
    if unknown := set(args.rooms) - set(ROOMS):
        parser.error(f"there is no room {sorted(unknown)[0]!r}; the rooms are {', '.join(ROOMS)}")
    if args.sample < 1:
        parser.error("--sample must be at least 1")
    os.nice(max(0, 10 - os.nice(0)))  # it has time; whoever called it may have said so already
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as with Ctrl-C, what was started is ended
    reasons, by_room = read_reasons(Path(__file__).with_name("survivors.toml")), dict[str, list[Result]]()
    for room in args.rooms or ROOMS:
        by_room[room] = run_room(room, args.sample, args.seed, Kept(args.out / f"{room}.jsonl"))
        (args.out / "report.md").write_text(report(by_room, reasons, args.seed))  # also of a call that is stopped later
    said = outdated(reasons, [result for results in by_room.values() for result in results], HOME)
    print((args.out / "report.md").read_text(), *said, sep="\n")
    return int(bool(said) or any(share(results) < AIM for results in by_room.values()))


if __name__ == "__main__":
    sys.exit(main())
