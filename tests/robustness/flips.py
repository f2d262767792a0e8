"""Numbers on disk with a flipped bit, and texts that no parser likes. Part of `faults.py`.

A flip is harmless where what is read is equal to what was written: E for e in an exponent, capital letters in \\u00e4,
or the name of a key whose value is null, since a key that is missing means the same. One in the name
`sha256` leaves the row as it was, and the row is then said to be unchecked.
"""

import contextlib
import io
import shutil
import subprocess
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from dsacc.cli import main
from dsacc.errors import Damaged
from dsacc.play.store import read_row_file
from dsacc.runs.folder import read_status
from dsacc.runs.logs import check_log

Report = Callable[[str, bool, str], None]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
DEEP = "[" * 10_000 + "]" * 10_000
HOSTILE = {
    "nested 10,000 deep": DEEP,
    "an object nested 990 deep": '{"format": 2, "state": ' + '{"a":' * 990 + "1" + "}" * 991,
    "a number of 10,000 digits": '{"format": ' + "9" * 10_000 + "}",
    "NaN": '{"format": NaN, "step": NaN}',
    "a key twice": '{"format": 2, "format": 2}',
    "no UTF-8": b'{"format": "\xff"}',
    "a number": "3",
}
WORST = [text for name, text in HOSTILE.items() if "nested" in name or "twice" in name]


def flipped(data: bytes) -> Iterator[bytes]:
    """The bytes with each single bit flipped in turn."""
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


def tidy(done: "subprocess.CompletedProcess[str]", run: Path) -> str:
    words = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    return words.replace(str(run), "RUN")[:200]


def one_sentence(done: "subprocess.CompletedProcess[str]") -> bool:
    return done.returncode == 2 and "Traceback" not in done.stderr and tidy(done, Path()).startswith("dsacc: ")


def here(*line: str) -> "subprocess.CompletedProcess[str]":
    """The command in this process, where starting a hundred would take too long."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(line)
        except Exception:
            traceback.print_exc()
            code = 1
    return subprocess.CompletedProcess(line, code, out.getvalue(), err.getvalue())


def flipped_rows(whole: Path, work: Path, dsacc: Run, report: Report) -> None:
    """Every bit of a file of rows; then the commands that play and that only read."""
    run = shutil.copytree(whole, work / "flipped-rows")
    test = ("evaluate", str(run), "--episodes", "2", "--shifts", "id")
    first = dsacc(*test)
    (path,) = (run / "evaluations").glob("*.json")
    good, rows = path.read_bytes(), read_row_file(path).rows
    counts = {"noticed": 0, "unchecked": 0, "the same": 0, "ANOTHER ROW": 0}
    for data in flipped(good):
        path.write_bytes(data)
        found = read_row_file(path)
        same = "unchecked" if found.unchecked else "the same"
        counts["noticed" if found.problems else same if found.rows == rows else "ANOTHER ROW"] += 1
    seen = ", ".join(f"{count} {what}" for what, count in counts.items())
    report(f"each of {len(good) * 8} bits of a file of rows", not counts["ANOTHER ROW"], seen)
    path.write_bytes(good.replace(b".0,", b".4,", 1))  # one bit of a digit
    refused = dsacc("report", str(run))
    report("`report` with a flipped digit in a score", one_sentence(refused), tidy(refused, run))
    again = dsacc(*test)
    said = next((line for line in again.stderr.splitlines() if "sha256" in line), "")
    fine = again.returncode == 0 and again.stdout == first.stdout and path.read_bytes() == good and bool(said)
    report("`evaluate` with a flipped digit in a score", fine, said.replace(str(run), "RUN")[:200])
    for name, text in HOSTILE.items():
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        refused, again = here("report", str(run)), here(*test)
        fine = one_sentence(refused) and again.returncode == 0 and path.read_bytes() == good
        report(f"a file of rows with {name}", fine, tidy(refused, run))
    shutil.rmtree(run)


def flipped_logs(whole: Path, work: Path, dsacc: Run, again: Run, report: Report) -> None:
    """Every bit of the exact logs; then the commands that read them, and the run that continues. `again(RUN)` trains it
    for more steps."""
    run = shutil.copytree(whole, work / "flipped-logs")
    for name in ("metrics.jsonl", "episodes.jsonl"):
        path, status, noticed = run / name, read_status(run), 0
        good = path.read_bytes()
        for data in flipped(good):
            path.write_bytes(data)
            try:
                check_log(run, name, status)
            except Damaged:
                noticed += 1
        report(f"each of {len(good) * 8} bits of {name}", noticed == len(good) * 8, f"{noticed} noticed")
        path.write_bytes(good.replace(b'"return": 1', b'"return": 3', 1) if b'"return": 1' in good else good[:-2])
        refused = again(run)
        report(f"a run that continues with a flipped digit in {name}", one_sentence(refused), tidy(refused, run))
        if name == "metrics.jsonl":
            refused, shown = dsacc("report", str(run)), dsacc("status", str(run), "--json")
            report("`report` with a flipped digit in a return", one_sentence(refused), tidy(refused, run))
            fine = '"last_return": null' in shown.stdout and "does not match its sha256" in shown.stdout
            report("`status` with a flipped digit in a return", fine, "the return is not shown, and it says why")
        path.write_bytes(good)
    shutil.rmtree(run)


def hostile_texts(whole: Path, work: Path, train: list[str], report: Report) -> None:
    """Each JSON file of a run in turn is something that no parser likes: never a traceback, whoever reads it. With
    `train` as the command, the run goes on for more steps."""
    newest = max(whole.glob("checkpoints/step-*"), key=lambda path: int(path.name.rpartition("-")[2])).name
    names = ["config.json", "status.json", "metrics.jsonl", "timing.jsonl", "checkpoints/newest.json"]
    for name in [*names, f"checkpoints/{newest}/manifest.json"]:
        fine, words = 0, ""
        for text in WORST:
            run = shutil.copytree(whole, work / "hostile-text")
            (run / name).write_bytes(text if isinstance(text, bytes) else text.encode())
            done = [here("status", str(run)), here("report", str(run)), here(*train, "--out", str(run))]
            fine += all(d.returncode in (0, 2) and "Traceback" not in d.stderr for d in done)
            words = next((tidy(d, run) for d in done if d.returncode == 2), words)
            shutil.rmtree(run)
        report(f"{name} in {len(WORST)} hostile forms", fine == len(WORST), words or "passed over, and said")
    for name, text in {"deep": f"envs = {DEEP}", "long": f"steps = {'9' * 10_000}", "nan": "steps = nan"}.items():
        (work / "grid.toml").write_text(text)
        done = here("experiment", str(work / "grid.toml"), "--dry-run")
        report(f"a grid that is {name}", one_sentence(done), tidy(done, work))
