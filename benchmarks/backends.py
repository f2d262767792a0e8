"""What do the backends of `dsacc experiment` cost compared with bare training?

    python benchmarks/backends.py [--steps 20000]

A run of DSAC and one of DSAC-M on Catch are trained and tested: first as two bare processes side by side, then by
`dsacc experiment` with the local pool and with a Ray cluster of its own. The rows of results must be the same.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENV, AGENTS = "dsacc/Catch-v0", ("dsac", "dsac-m")
SHIFTS, EPISODES = ("id", "snow"), 20
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
DSACC = [sys.executable, "-m", "dsacc"]


def bare(folder: Path, steps: int) -> list[dict]:
    """What a person would type, for both agents at the same time."""

    def script(agent: str) -> str:
        out = folder / agent
        train = [*DSACC, "train", ENV, "--agent", agent, "--steps", str(steps), "--out", str(out)]
        test = [*DSACC, "evaluate", str(out), "--shifts", *SHIFTS, "--episodes", str(EPISODES), "--format", "json"]
        return f"{' '.join(train)} && {' '.join(test)} > {out}.json"

    quiet = {"stderr": subprocess.DEVNULL, "env": ONE_THREAD}
    running = [subprocess.Popen(["sh", "-c", script(agent)], **quiet) for agent in AGENTS]
    assert [process.wait() for process in running] == [0] * len(AGENTS)
    return [row for agent in AGENTS for row in json.loads((folder / f"{agent}.json").read_text())]


def experiment(backend: str, folder: Path, steps: int) -> list[dict]:
    grid = folder / "grid.toml"
    grid.write_text(
        f"envs = ['{ENV}']\nagents = {list(AGENTS)}\nsteps = {steps}\n"
        f"[tests]\nshifts = {list(SHIFTS)}\nepisodes = {EPISODES}\n"
    )
    command = [*DSACC, "experiment", str(grid), "--backend", backend, "--out", str(folder / "out")]
    subprocess.run(command, check=True, capture_output=True, env=ONE_THREAD)
    return json.loads((folder / "out" / "results.json").read_text())


def comparable(rows: list[dict]) -> list[str]:
    """What all ways must agree on, in one order."""
    names = ("agent", "train_seed", "step", "shift", "severity", "mode", "policy", "returns", "lengths")
    return sorted(json.dumps({name: row[name] for name in names}) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="agent steps per run (default: 20000, some minutes)")
    steps = parser.parse_args().steps
    results: dict[str, tuple[float, list[str]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        ways = {
            "bare": lambda folder: bare(folder, steps),
            "local": lambda folder: experiment("local", folder, steps),
            "ray": lambda folder: experiment("ray", folder, steps),
            "bare again": lambda folder: bare(folder, steps),  # in case the machine was busier the first time
        }
        for name, way in ways.items():
            folder = Path(temporary) / name.replace(" ", "-")
            folder.mkdir()
            began = time.monotonic()
            rows = way(folder)
            results[name] = time.monotonic() - began, comparable(rows)
            print(f"{name:10} {results[name][0]:7.1f} s", flush=True)
    least = min(seconds for name, (seconds, _) in results.items() if name.startswith("bare"))
    for name in ("local", "ray"):
        more = results[name][0] - least
        print(
            f"{name}: {more:+.1f} s over bare = {100 * more / least:+.1f} %; of ten minutes {100 * more / 600:+.1f} %"
        )
    same = all(rows == results["bare"][1] for _, rows in results.values())
    print("the rows of results are the same" if same else "THE ROWS OF RESULTS DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
