"""What a person sees: a live bar on a terminal, plain lines in a pipe."""

import os
import pty
import re
import subprocess
import sys

from dsacc.system.bar import Bar
from dsacc.system.progress import Lines, describe
from dsacc.system.text import readable

COMMAND = [sys.executable, "-m", "dsacc", "train", "CartPole-v1", "--steps", "200", "--random-steps", "20"]
COMMAND += ["--hidden", "16", "--batch-size", "8", "--log-every", "50"]


def test_on_a_terminal_a_bar_shows_step_speed_time_and_figures(tmp_path):
    mine, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen([*COMMAND, "--out", str(tmp_path / "run")], stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(mine, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        seen += data
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert "200/200" in text
    assert "steps/s" in text
    for name in ("return", "entropy", "alpha", "lambda"):
        assert re.search(rf"{name} -?[0-9]", text), name


def test_in_a_pipe_there_are_plain_lines(tmp_path):
    done = subprocess.run([*COMMAND, "--out", str(tmp_path / "run")], capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("step ")]
    assert len(lines) == 20
    assert re.match(r"step 200/200  [\d,]+ steps/s  0 s left  return .* lambda ", lines[-1])
    assert "\x1b" not in done.stderr
    assert done.stdout == ""


def test_a_short_run_still_says_its_end(capsys):
    lines = Lines(3)
    for step in (1, 2, 3):
        lines.step(step)
    assert capsys.readouterr().err.splitlines()[-1].startswith("step 3/3")


def test_speed_and_time_left_are_those_of_the_latest_steps(capsys, monkeypatch):
    seconds = 0.0
    monkeypatch.setattr("dsacc.system.progress.time.monotonic", lambda: seconds)
    lines = Lines(40)  # a line every two steps
    for step in range(1, 21):
        seconds += 0.001 if step <= 10 else 1.0  # the first ten steps do not learn
        lines.step(step)
    assert capsys.readouterr().err.splitlines()[-1] == "step 20/40  1.0 steps/s  20 s left"


def test_random_play_says_nothing_about_the_time_left(capsys, monkeypatch):
    seconds = 0.0
    monkeypatch.setattr("dsacc.system.progress.time.monotonic", lambda: seconds)
    lines = Lines(40, fast=5)  # a line every two steps
    for step in range(1, 41):
        seconds += 0.001 if step <= 5 else 1.0
        lines.step(step)
    said = capsys.readouterr().err.splitlines()
    assert said[:3] == [
        "step 2/40  1,000 steps/s  random play until step 5",
        "step 4/40  1,000 steps/s  random play until step 5",
        "step 6/40  1.0 steps/s  34 s left",
    ]
    assert said[-1] == "step 40/40  1.0 steps/s  0 s left"


def test_a_bar_forgets_the_speed_of_random_play(capsys):
    bar = Bar(100, label="dsac", fast=50)
    bar.step(50)
    column = bar.progress.columns[-1]
    assert str(column.render(bar.progress.tasks[0])) == "random play"
    bar.step(51)
    assert str(column.render(bar.progress.tasks[0])) == "-:--:--"
    assert (len(bar.progress.tasks), bar.progress.tasks[0].completed) == (1, 51)
    bar.close()


def test_figures_that_are_missing_are_left_out():
    assert describe({"return": None, "entropy": 0.5, "lambda": 0.25}) == "entropy 0.5  lambda 0.25"


def test_scores_have_no_exponents():
    assert [readable(x) for x in (0.01234, 132.4, 1_150.4, -10_463.0)] == ["0.0123", "132", "1,150", "-10,463"]
    assert readable(999.6) == "1,000"
    assert readable(132.44, 4) == "132.4"
    assert describe({"return": 10_463.2, "entropy": 0.412}) == "return 10,463  entropy 0.412"
