"""Everything that can go wrong with a run folder, done on purpose; a line for each with what the user sees.

    python tests/robustness/faults.py        (also: make fault-test)

Real files, real processes, a real full disk (a small tmpfs where mounting is allowed, else a limit on file sizes).
"""

import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from helpers.checkpoints import newest_intact

from dsacc.errors import BadInput, DsaccError
from dsacc.runs import Checkpoints, read_model
from dsacc.runs.checkpoint import _sealed
from dsacc.system.packing import unpack_arrays
from robustness.flips import flipped_logs, flipped_rows, hostile_texts

TINY = [
    "--steps",
    "300",
    "--random-steps",
    "60",
    "--batch-size",
    "8",
    "--hidden",
    "32",
    "--log-every",
    "50",
    "--checkpoint-every",
    "100",
]
ENV = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
FLIPS, CUTS = 200, 20

failures: list[str] = []


def report(fault: str, fine: bool, seen: str) -> None:
    print(f"{'ok  ' if fine else 'BAD '} {fault}: {seen}", flush=True)
    if not fine:
        failures.append(fault)


def train(out: Path, env: str = "Breakout", *more: str, **popen: object) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "dsacc", "train", env, "--out", str(out), *TINY, "--replay-size", "200", *more]
    return subprocess.run(line, capture_output=True, text=True, env=ENV, **popen)


def dsacc(*line: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "dsacc", *line], capture_output=True, text=True, env=ENV)


def changed_numbers(work: Path) -> None:
    """Flipped bits in rows and logs, and hostile texts: of a run without pictures, because there are thousands."""
    run, more = work / "numbers", ["--steps", "320"]
    done = train(run, "CartPole-v1")
    assert done.returncode == 0, done.stderr
    flipped_rows(run, work, dsacc, report)
    flipped_logs(run, work, dsacc, lambda copy: train(copy, "CartPole-v1", *more), report)
    hostile_texts(run, work, ["train", "CartPole-v1", *TINY, "--replay-size", "200", *more], report)


def last_words(done: subprocess.CompletedProcess) -> str:
    return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""


def sentence(done: subprocess.CompletedProcess, code: int = 2) -> bool:
    """One line of ours, no traceback."""
    return done.returncode == code and "Traceback" not in done.stderr and last_words(done).startswith("dsacc: ")


# --- damaged files ---


def damaged_files(whole: Path, work: Path) -> None:
    """Each file of the newest checkpoint, cut short and with flipped bytes: never read as if it were whole."""
    newest = newest_intact(whole)
    assert newest is not None
    folder = f"checkpoints/step-{newest.manifest.step}"
    names = [f"{folder}/{n}" for n in ("agent.safetensors", "trainer.safetensors", "manifest.json")]
    names += [f"replay/{newest.manifest.segments[-1].name}", "checkpoints/newest.json"]
    rng = random.Random(0)
    for name in names:
        run = work / "damaged"
        shutil.copytree(whole, run)
        path = run / name
        data = path.read_bytes()
        caught, words = 0, ""
        changes = [data[: len(data) * k // CUTS] for k in range(CUTS)]
        for _ in range(FLIPS):
            at = rng.randrange(len(data))
            changes.append(data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :])
        for change in changes:
            path.write_bytes(change)
            found = newest_intact(run)
            assert found is not None
            if name.endswith("newest.json"):  # a broken pointer costs nothing: the folders are looked at
                caught += Checkpoints(run)._pointed_at() is None and found.manifest == newest.manifest
                words = "the pointer is passed over, the newest whole checkpoint is found without it"
            else:
                caught += found.manifest.step < newest.manifest.step and len(found.passed_over) == 1
                words = found.passed_over[0] if found.passed_over else "nothing was noticed"
        report(
            f"{Path(name).name} cut {CUTS} times, {FLIPS} bytes flipped",
            caught == len(changes),
            f"{caught} of {len(changes)} detected; {words.replace(str(run), 'RUN')}",
        )
        shutil.rmtree(run)


def passed_over(whole: Path, work: Path) -> None:
    """The run itself, with a damaged newest checkpoint: it goes on from the older one and ends the same."""
    run = work / "older"
    shutil.copytree(whole, run)
    status = json.loads((run / "status.json").read_text()) | {"state": "running"}
    (run / "status.json").write_text(json.dumps(status))
    agent = run / "checkpoints" / "step-300" / "agent.safetensors"
    good = agent.read_bytes()
    agent.write_bytes(good[:1000] + b"\xff" + good[1001:])
    done = train(run)
    said = next((line for line in done.stderr.splitlines() if "sha256" in line), "")
    report("a run whose newest checkpoint is damaged", done.returncode == 0 and agent.read_bytes() == good, said)


class Canary:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return (os.system, ("touch canary",))


def foreign_files(work: Path) -> None:
    """Pickles and hostile safetensors: refused with a sentence, and nothing runs."""
    os.chdir(work)
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'

    def st(head: bytes, body: bytes = b"\0" * 4, length: int | None = None) -> bytes:
        return (len(head) if length is None else length).to_bytes(8, "little") + head + body

    files = {
        "a pickle with a canary": pickle.dumps(Canary()),
        "a header of 2^60 bytes": st(header, length=2**60),
        "a header longer than the file": st(header, length=10_000),
        "offsets outside the file": st(header.replace(b"[0,4]", b"[0,4000]")),
        "overlapping tensors": st(
            b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},' + header[1:].replace(b'"a"', b'"b"')
        ),
        "a shape that overflows": st(header.replace(b"[1]", b"[4294967296,4294967296,4294967296]")),
        "a negative shape": st(header.replace(b"[1]", b"[-1]")),
        "an unknown type": st(header.replace(b"F32", b"F99")),
        "a header that is not JSON": st(b"{" * 100),
        "a header nested 100,000 deep": st(b"[" * 100_000),
        "no header of ours": st(header),
        "an empty file": b"",
    }
    for name, data in files.items():
        path = work / "foreign.safetensors"
        path.write_bytes(data)
        try:
            read_model(path)
            seen, fine = "it was read", False
        except BadInput as error:
            seen, fine = str(error).replace(str(work), "."), True
        try:
            unpack_arrays(data, path)
            fine = False
        except BadInput:
            pass
        report(name, fine and not (work / "canary").exists(), seen[:160])


def hostile_manifests(whole: Path, work: Path) -> None:
    """Manifests that point outside, at links, or describe nonsense, with a right seal: refused, nothing touched."""
    precious = work / "precious.safetensors"
    precious.write_bytes(b"precious")
    original = json.loads((whole / "checkpoints/step-300/manifest.json").read_text())
    original.pop("sha256")
    entry = original["files"][0]
    cases = {
        "../ in a file name": {"files": [entry | {"name": "../../../precious.safetensors"}]},
        "an absolute file name": {"files": [entry | {"name": str(precious)}]},
        "../ in a segment's name": {"segments": [entry | {"name": "../precious.safetensors"}]},
        "a negative size": {"files": [entry | {"bytes": -1}]},
        "files that are a number": {"files": 3},
        "a file listed twice": {"files": [entry, entry]},
        "a step that is text": {"step": "300"},
        "a format of the future": {"format": 99},
    }
    for name, change in cases.items():
        run = work / "hostile"
        shutil.copytree(whole, run)
        (run / "checkpoints/step-300/manifest.json").write_bytes(_sealed(original | change))
        found = newest_intact(run)
        fine = found is not None and found.manifest.step < 300 and precious.read_bytes() == b"precious"
        report(name, fine, found.passed_over[0].replace(str(run), "RUN")[:170] if found and found.passed_over else "")
        shutil.rmtree(run)
    run = work / "linked"
    shutil.copytree(whole, run)
    agent = run / "checkpoints/step-300/agent.safetensors"
    shutil.move(agent, work / "moved.safetensors")
    agent.symlink_to(work / "moved.safetensors")
    found = newest_intact(run)
    assert found is not None
    report("a link in place of a file", found.manifest.step < 300, found.passed_over[0].replace(str(run), "RUN"))


# --- the disk ---


def full_disk(whole: Path, work: Path) -> None:
    """A disk that fills up at each write of a run: the last good checkpoint stays, and the run goes on after."""
    from crash import fingerprint

    place = work / "small"
    place.mkdir()
    mounted = (
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)], capture_output=True).returncode
        == 0
    )
    want = fingerprint(whole)
    sizes = [0, 4, 40, 300, 700, 1200, 1600, 2600, 3200]  # KB left on the disk
    if mounted:  # and around the end of the first checkpoint, where manifest and pointer are written
        train(place / "run", "Breakout", "--steps", "100")
        usage = shutil.disk_usage(place)
        sizes += [(usage.total - usage.free) // 1024 + pages * 4 for pages in (-5, -4, -3, -2, -1, 0, 1)]
    for left in sizes:
        run, ballast = place / "run", place / "ballast"
        for path in place.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if mounted:
            free = shutil.disk_usage(place).free
            ballast.write_bytes(b"\0" * (free - left * 1024))
            done = train(run)
        else:
            limit = left * 1024
            done = train(run, preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        words = last_words(done).replace(str(place), "")
        ballast.unlink(missing_ok=True)
        if done.returncode == 0:
            report(f"a disk with {left} KB", fingerprint(run) == want, "the run fits and ends the same")
            continue
        held = newest_intact(run) if run.exists() else None
        again = train(run)
        fine = sentence(done) and again.returncode == 0 and fingerprint(run) == want
        kept = f"step {held.manifest.step} kept" if held else "nothing was saved yet"
        report(f"a disk with {left} KB", fine, f"{words[:150]} [{kept}; with room made it ends the same]")
    if mounted:
        subprocess.run(["umount", str(place)], check=True)


# --- processes ---


def two_processes(work: Path) -> None:
    """Two commands on one folder at once, again and again: exactly one trains."""
    program = (
        "import sys; from pathlib import Path; from dsacc.runs.lock import RunLock; from dsacc.errors import RunError\n"
        "for line in sys.stdin:\n"
        "    try:\n"
        "        lock = RunLock.acquire(Path(line.strip())); print('won', flush=True)\n"
        "        sys.stdin.readline(); lock.release()\n"
        "    except RunError as error:\n"
        "        print(error, flush=True); sys.stdin.readline()\n"
    )
    pair = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV
        )
        for _ in range(2)
    ]
    once, words = 0, ""
    for k in range(50):
        folder = work / f"race-{k}"
        for p in pair:
            p.stdin.write(f"{folder}\n")
            p.stdin.flush()
        answers = [p.stdout.readline().strip() for p in pair]
        once += answers.count("won") == 1
        words = next((a for a in answers if a != "won"), words)
        for p in pair:
            p.stdin.write("\n")
            p.stdin.flush()
    for p in pair:
        p.stdin.close()
        p.wait()
    report(
        "two processes on one folder, 50 times", once == 50, f"exactly one won {once} times; the other: {words[:170]}"
    )


def running_and_stale(work: Path) -> None:
    run = work / "held"
    line = [sys.executable, "-m", "dsacc", "train", "Breakout", "--out", str(run), *TINY, "--steps", "100000"]
    holder = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=ENV)
    while not (run / "metrics.jsonl").exists():
        time.sleep(0.05)
    second = subprocess.run(line, capture_output=True, text=True, env=ENV)
    report("the same command while it runs", sentence(second), last_words(second)[:200].replace(str(work), ""))
    holder.kill()
    holder.communicate()
    third = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=ENV)
    heard = [third.stderr.readline() for _ in range(3)]
    took = next((h.strip() for h in heard if "took over" in h), "")
    report("a stale lock, its process killed", bool(took), took)
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        time.sleep(1.5)
        began = time.monotonic()
        third.send_signal(number)
        words = third.communicate()[1].strip().splitlines()[-1]
        seconds = time.monotonic() - began
        status = json.loads((run / "status.json").read_text())
        newest = newest_intact(run)
        fine = (
            third.returncode == code and seconds < 10 and newest is not None and newest.manifest.step == status["step"]
        )
        report(number.name, fine, f"exit code {third.returncode} after {seconds:.1f} s: {words}")
        third = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=ENV)
        third.stderr.readline()
    third.kill()
    third.communicate()


def numbers(work: Path) -> None:
    """NaN and infinity from the environment and in the gradient: the run stops, the last good checkpoint stays."""
    for what in ("observation", "reward"):
        for bad in ("nan", "inf"):
            out = work / f"{what}-{bad}"
            env = f"probes:Spoiled{what.title()}{bad.title()}-v0"
            done = train(out, env, "--checkpoint-every", "50")
            newest = newest_intact(out)
            report(f"{bad} in the {what}", sentence(done) and newest is not None, last_words(done)[:170])
    for bad in ("nan", "inf"):
        out = work / f"gradient-{bad}"
        program = (
            "import sys, torch; from dsacc import DSAC; from dsacc.errors import TrainingDiverged\n"
            "tiny = dict(random_steps=20, batch_size=8, hidden=16, checkpoint_every=50)\n"
            "m = DSAC('CartPole-v1', constraint='mean', **tiny)\n"
            f"def spoil(g): return g * float('{bad}') if m.learner is not None and m._trainer.updates > 120 else g\n"
            "m.learner.critics.heads[0].weight.register_hook(spoil)\n"
            "try:\n    m.learn(400, out=sys.argv[1])\n"
            "except TrainingDiverged as error:\n    print(m._trainer.updates, error)\n"
        )
        done = subprocess.run([sys.executable, "-c", program, str(out)], capture_output=True, text=True, env=ENV)
        words = done.stdout.strip()
        newest = newest_intact(out)
        fine = done.returncode == 0 and words != "" and 120 < int(words.split()[0]) <= 220 and newest is not None
        clean = (
            fine
            and newest is not None
            and all(
                t.isfinite().all()
                for t in read_model(out / f"checkpoints/step-{newest.manifest.step}/agent").tensors.values()
            )
        )
        report(f"{bad} in a gradient after update 121", bool(clean), f"stopped at update {words[:150]}")


def changed_setting(whole: Path) -> None:
    done = train(whole, "Breakout", "--noise-std", "0.5")
    report("a changed setting", sentence(done), last_words(done).replace(str(whole), "RUN"))


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        whole = work / "whole"
        done = train(whole)
        assert done.returncode == 0, done.stderr
        try:
            changed_setting(whole)
            damaged_files(whole, work)
            passed_over(whole, work)
            foreign_files(work)
            hostile_manifests(whole, work)
            changed_numbers(work)
            two_processes(work)
            running_and_stale(work)
            numbers(work)
            full_disk(whole, work)
        except DsaccError as error:
            report("the test itself", False, str(error))
        os.chdir("/")
    print(f"{len(failures)} faults were not handled: {failures}" if failures else "every fault was handled")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
