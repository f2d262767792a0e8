"""Every command as a user types it: exit codes, one-line errors, nothing half-written."""

import json
import subprocess
import sys
from typing import get_args

import gymnasium
import pytest
from helpers.mistakes import assert_refused

from dsacc.analysis.formats import Format
from dsacc.cli import COMMANDS, build_parser, main

TINY = ["--random-steps", "20", "--hidden", "16", "--batch-size", "8", "--log-every", "50"]


def said(capsys) -> list[str]:
    return capsys.readouterr().err.strip().splitlines()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evaluate random --env CartPole-v1 --seed -1", "seed must be at least 0, not -1"),
        ("train CartPole-v9", "there is no environment 'CartPole-v9'; did you mean 'CartPole-v1'?"),
        ("train CartPole-v1 --agent dsac-x", "invalid choice: 'dsac-x'"),
        ("train CartPole-v1 --steps 0", "--steps must be at least 1, not 0"),
        ("train CartPole-v1 --steps -5", "--steps must be at least 1, not -5"),
        ("train CartPole-v1 --steps 1.5", "invalid whole number value: '1.5'"),
        ("train CartPole-v1 --noise-std much", "'much' is not a number"),
        ("train CartPole-v1 --noise-std nan", "noise_std must be a finite number"),
        ("train CartPole-v1 --batch-size 0", "batch_size must be at least 1"),
        (
            "train CartPole-v1 --alpha-scale range",
            "alpha none tunes the temperature, which does not go with alpha_scale range; give alpha_scale fixed",
        ),
        (
            "train dsacc/Catch-v0 --layer-norm",
            "layer_norm takes the place of rescale_features; turn rescale_features off",
        ),
        ("train CartPole-v1 --no-such-option", "unrecognized arguments: --no-such-option; see `dsacc train --help`"),
        ("train CartPole-v1 --gama=0.9", "--gama=0.9 (did you mean --gamma?); see `dsacc train --help`"),
        ("train MyGrid-v0", "there is no environment 'MyGrid-v0'; name one of your own as MODULE:Id-v0"),
        ("train CartPole-v1 --threads 0", "--threads must be at least 1"),
        ("train CartPole-v1 --device gpu9", "device 'gpu9' is not available"),
        ("train Pendulum-v1", "actions of type Box are not supported"),
        ("train Blackjack-v1", "Tuple are not supported"),
        ("train probes:NanFromTheStart-v0", "NaN or infinity"),
        ("evaluate nowhere", "there is no saved agent nowhere.safetensors, nor a run folder nowhere"),
        ("evaluate nowhere --shifts", "expected at least one argument"),
        ("", "the following arguments are required: COMMAND"),
        ("fly", "invalid choice: 'fly'"),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_nothing_written(arguments, message, tmp_path, monkeypatch, capsys):
    assert_refused(arguments, message, tmp_path, monkeypatch, capsys)


def test_what_only_the_preset_for_pictures_allows_is_allowed_for_pictures(here, capsys):
    assert main(["train", "dsacc/Catch-v0", "--alpha-scale", "range", "--replay-size", "500", "--dry-run"]) == 0
    assert said(capsys)[0].startswith("new run in runs/dsacc-Catch-v0-dsac-m-s0-")


OWN = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

gymnasium.register("Own-v0", entry_point=CartPoleEnv, max_episode_steps=20)
"""


def test_an_environment_of_ones_own_is_found_in_the_current_folder_by_train_and_by_the_command_it_names(here, capsys):
    (here / "own_environment.py").write_text(OWN)
    assert main(["train", "own_environment:Own-v0", "--steps", "60", "--out", "run", *TINY]) == 0
    following = said(capsys)[-1]
    assert following == "next: dsacc evaluate run --env own_environment:Own-v0"
    gymnasium.registry.pop("Own-v0")  # as in a new process
    del sys.modules["own_environment"]
    assert main([*following.removeprefix("next: dsacc ").split(), "--episodes", "1"]) == 0


def test_a_folder_of_runs_that_is_taken_for_a_run_names_one(here, capsys):
    (here / "runs" / "first").mkdir(parents=True)
    assert main(["evaluate", "runs"]) == 2
    assert said(capsys) == ["dsacc: runs is a folder without a run (it has no config.json)"]
    (here / "runs" / "first" / "config.json").write_text("{}")
    assert main(["evaluate", "runs"]) == 2
    assert said(capsys) == ["dsacc: runs is a folder without a run (it has no config.json); did you mean runs/first?"]


def test_train_says_what_it_found_and_what_to_do_next(here, capsys):
    command = ["train", "CartPole-v1", "--agent", "dsac-m", "--steps", "120", "--out", "run", *TINY]
    assert main([*command, "--dry-run"]) == 0
    assert said(capsys)[0].startswith("new run in run: dsac-m on CartPole-v1, 120 steps")
    assert list(here.iterdir()) == []
    assert main(command) == 0
    lines = said(capsys)
    assert lines[-2:] == ["done: the agent is in run", "next: dsacc evaluate run"]
    assert any("steps/s" in line and "entropy" in line and "lambda" in line for line in lines)
    assert main(command) == 0
    assert said(capsys) == ["run: this run is finished; it has 120 steps or more", "next: dsacc evaluate run"]
    assert main([*command, "--noise-std", "0.5"]) == 2
    assert "noise_std 1.0 there, 0.5 here" in said(capsys)[-1]


def test_a_run_of_random_steps_alone_says_that_nothing_is_learned(here, capsys):
    assert main(["train", "CartPole-v1", "--steps", "30", "--random-steps", "30", "--out", "run"]) == 0
    said = capsys.readouterr().err
    assert "warning: all 30 steps are random play and nothing is learned: learning begins after random_steps" in said
    assert "done: the agent is in run, but it has learned nothing: all steps were random\n" in said
    assert main(["train", "CartPole-v1", "--steps", "40", "--random-steps", "30", "--out", "run"]) == 0
    said = capsys.readouterr().err
    assert "nothing" not in said
    assert "done: the agent is in run\n" in said


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    assert_refused("demo --out file/demo", "file/demo cannot be locked", tmp_path, monkeypatch, capsys)


def test_options_reach_the_run(here):
    options = (
        "--noise-std 0.5 --alpha none --fixed-lambda 0.25 --no-clip-rewards --critics min --seed 7 --noise-relative"
    )
    assert main(["train", "CartPole-v1", "--steps", "60", "--out", "run", *TINY, *options.split()]) == 0
    config = json.loads((here / "run" / "config.json").read_text())["config"]
    assert (config["noise_std"], config["alpha"], config["fixed_lambda"]) == (0.5, None, 0.25)
    assert (config["critics"], config["seed"], config["noise_relative"], config["hidden"]) == ("min", 7, True, 16)


def test_the_default_folder_is_named_after_the_run(here):
    assert main(["train", "dsacc/Catch-v0", "--preset", "efficient", "--steps", "30", *TINY]) == 0
    (run,) = (here / "runs").iterdir()
    assert run.name.startswith("dsacc-Catch-v0-dsac-m-s0-")


def test_evaluate_prints_a_table_or_nothing_but_json(here, capsys):
    main(["train", "CartPole-v1", "--steps", "60", "--out", "run", *TINY])
    capsys.readouterr()
    assert main(["evaluate", "run", "--episodes", "3"]) == 0
    assert "CartPole-v1" in capsys.readouterr().out
    assert main(["evaluate", "run", "--episodes", "3", "--format", "json", "--policy", "sampled"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    fields = "env agent train_seed eval_seed step shift severity mode policy returns lengths top_action"
    assert row.keys() == set(fields.split())
    assert (len(row["returns"]), row["severity"], row["policy"]) == (3, None, "sampled")
    assert len(list((here / "run" / "evaluations").glob("*.json"))) == 2
    assert main(["evaluate", "run", "--shifts", "hail"]) == 2
    assert "unknown shift 'hail'" in said(capsys)[-1]


def test_help_explains_every_option_with_its_default(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "standard deviation of that noise, in units of Q (default: 1)" in text
    assert "agent steps between target updates (default: 1; paper: 8000, paper-minatar: 800)" in text


def test_the_formats_of_evaluate_are_those_that_render_knows_and_json():
    command = build_parser()._subparsers._group_actions[0].choices["evaluate"]
    (chosen,) = (action.choices for action in command._actions if action.dest == "format")
    assert chosen == [*get_args(Format), "json"]


def test_help_needs_neither_torch_nor_opencv():
    code = "import sys, dsacc.cli as c; c.build_parser(); print(sorted({'torch', 'cv2', 'rich'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_python_dash_m_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "dsacc", "train", "CartPole-v1", "--steps", "0"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "dsacc: --steps must be at least 1, not 0"


@pytest.mark.parametrize(("command", "words"), [("train", "; run the same command to continue"), ("preview", "")])
def test_ctrl_c_promises_to_continue_only_where_the_command_does(command, words, monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS[command], "run", interrupted)
    assert main([command, "dsacc/Catch-v0"]) == 130
    assert capsys.readouterr().err.strip() == f"dsacc: stopped{words}"


def test_ctrl_c_while_the_options_are_read_is_one_sentence_too(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("dsacc.cli.parser.build_parser", interrupted)
    assert main(["train", "dsacc/Catch-v0"]) == 130
    assert capsys.readouterr().err == "dsacc: stopped\n"
