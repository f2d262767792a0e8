"""A video shows the games that an evaluation plays, and is written whole or not at all."""

import hashlib
import inspect
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from helpers.mistakes import assert_refused
from PIL import Image
from probes import Probe

from dsacc import DSAC, evaluate
from dsacc.cli import build_parser, main
from dsacc.errors import ConfigError, EnvError, RunError
from dsacc.play.adapters import BlindPlayer, OnnxPlayer, OwnPlayer, RandomPlayer, SB3Player
from dsacc.play.store import Trial
from dsacc.system.extras import how_to_install
from dsacc.views.watch import film as film_module
from dsacc.views.watch import play, watch
from dsacc.views.watch.canvas import BLUE, GREEN, ORANGE, fitted
from dsacc.views.watch.panel import Moment, Panel, arrange
from dsacc.views.watch.readout import DRAWS, Readout, reader_of

ffmpeg = pytest.importorskip("imageio_ffmpeg", reason=how_to_install("video"))
TINY = {"random_steps": 20, "hidden": 16, "batch_size": 8}


@pytest.fixture(scope="module")
def catcher():
    return DSAC("dsacc/Catch-v0", constraint="mean", preset="classic", encoder="small", hidden=16)


@pytest.fixture
def frames(monkeypatch):
    """What would be encoded."""
    taken = []
    real = play.arrange
    monkeypatch.setattr(play, "arrange", lambda *args: taken.append(real(*args)) or taken[-1])
    return taken


def read_back(path):
    reader = ffmpeg.read_frames(str(path))
    about = next(reader)
    width, height = about["size"]
    return about, [np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in reader]


def score(observations):
    """Always the last action, as scores."""
    return np.tile([0.0, 1.0, 3.0], (len(observations), 1))


def choice(observations):
    return np.full(len(observations), 2)


# --- the file ---------------------------------------------------------------------------------------------------------


def test_an_mp4_is_h264_and_has_every_frame_in_its_size(catcher, frames, tmp_path):
    made = watch(catcher, out=tmp_path / "a" / "b.mp4", fps=10)
    about, back = read_back(made.path)
    assert made.frames == len(back) == 6 + 10  # a ball falls six steps; the last picture stays for a second
    assert made.size == tuple(about["size"]) == back[0].shape[1::-1] == frames[0].shape[1::-1]
    assert all(side % 2 == 0 for side in made.size)
    assert (about["codec"], about["pix_fmt"].split("(")[0], about["fps"]) == ("h264", "yuv420p", 10)
    for got, drawn in zip(back, frames, strict=False):
        assert np.abs(got.astype(int) - drawn).mean() < 4
    data = made.path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # the index in front: it plays while it loads
    assert sorted(path.name for path in made.path.parent.iterdir()) == ["b.mp4"]


def test_a_gif_has_the_same_frames_in_256_colours(catcher, frames, tmp_path):
    made = watch(catcher, out=tmp_path / "a.gif", shifts=["id"], fps=20)
    with Image.open(made.path) as gif:
        shown = 0
        for k in range(gif.n_frames):
            gif.seek(k)
            picture = np.asarray(gif.convert("RGB")).astype(int)
            assert np.abs(picture - frames[min(shown // 50, len(frames) - 1)]).mean() < 6
            shown += gif.info["duration"]
        assert gif.size == made.size
        assert shown == made.frames * 50  # equal frames may be one that stays longer
        assert gif.info["loop"] == 0


def test_the_same_seed_draws_the_same_frames_and_another_does_not(catcher, frames, tmp_path):
    def digest(seed):
        frames.clear()
        watch(catcher, out=tmp_path / "a.gif", policy="sampled", seed=seed)
        return hashlib.sha256(np.stack(frames).tobytes()).hexdigest()

    assert digest(0) == digest(0) != digest(1)


def test_a_file_that_was_there_stays_where_the_new_one_fails(catcher, tmp_path, monkeypatch):
    old = tmp_path / "a.mp4"
    old.write_bytes(b"old")
    real = Panel.draw
    calls = []

    def breaks(self, moment):
        calls.append(moment)
        if len(calls) > 4:
            raise RuntimeError("broken")
        return real(self, moment)

    monkeypatch.setattr(Panel, "draw", breaks)
    for name in ("a.mp4", "b.mp4", "c.gif"):
        calls.clear()
        with pytest.raises(RuntimeError, match="broken"):
            watch(catcher, out=tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]
    assert old.read_bytes() == b"old"


def test_what_ffmpeg_says_is_told_in_a_sentence_and_nothing_is_left(catcher, tmp_path, monkeypatch):
    monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", lambda: sys.executable)  # takes none of these options
    with pytest.raises(RunError, match="the video cannot be written"):
        watch(catcher, out=tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_played(catcher, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(Panel, "draw", lambda *_: pytest.fail("played"))
    with pytest.raises(RunError, match="cannot be written"):
        watch(catcher, out=tmp_path / "file" / "a.mp4")


def test_a_gif_that_would_fill_the_memory_is_stopped(catcher, tmp_path, monkeypatch):
    monkeypatch.setattr(film_module, "GIF_BYTES", 2_000_000)
    with pytest.raises(ConfigError, match=r"at frame \d+; choose a lower --max-steps or a file name that ends in .mp4"):
        watch(catcher, out=tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_leaves_nothing(tmp_path):
    source = str(Path(__file__).parents[2] / "src")
    command = [
        sys.executable,
        "-m",
        "dsacc",
        "watch",
        "random",
        "--env",
        "CartPole-v1",
        "--out",
        str(tmp_path / "a.mp4"),
    ]
    process = subprocess.Popen(
        [*command, "--episodes", "100000"],
        env=os.environ | {"PYTHONPATH": source},
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    try:
        deadline = time.monotonic() + 60
        while process.poll() is None and not any(path.stat().st_size for path in tmp_path.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert b"Traceback" not in said
    assert list(tmp_path.iterdir()) == []


# --- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
def test_the_scores_are_the_evaluations(catcher, policy, tmp_path):
    made = watch(catcher, out=tmp_path / "a.gif", episodes=3, seed=5, policy=policy, shifts=["id", "fog"])
    rows = evaluate(catcher, episodes=3, seed=5, policy=policy, shifts=["id", "fog"])
    assert list(made.scores.values()) == [row["returns"] for row in rows]
    assert list(made.steps.values()) == [row["lengths"] for row in rows]
    assert not made.cut


def test_atari_shows_the_shifted_screen_in_colour_and_what_the_network_gets(frames, tmp_path, monkeypatch):
    moments = []
    monkeypatch.setattr(play, "Moment", lambda *args: moments.append(Moment(*args)) or moments[-1])
    model = DSAC("Breakout", constraint="both", preset="classic", encoder="small", hidden=8)
    made = watch(model, out=tmp_path / "a.mp4", shifts=["id", "snow", "rain"], max_steps=3)
    assert made.cut
    assert made.steps == {"id": [3], "snow": [3], "rain": [3]}
    clean, snow = moments[0], moments[1]
    assert clean.picture.shape == snow.picture.shape == (210, 160, 3)
    assert clean.view.shape == (84, 84, 1)
    assert (clean.picture != snow.picture).any()
    assert (clean.view != snow.view).any()
    panel = Panel("clean", "", ["NOOP", "FIRE", "RIGHT", "LEFT"], clean)
    assert panel.view_side == 168
    for y, x, part in ((40, 12, clean.picture), (40, panel.left, clean.view)):
        large = np.broadcast_to(part.repeat(2, 0).repeat(2, 1), (2 * part.shape[0], 2 * part.shape[1], 3))
        assert np.array_equal(frames[0][40 + y : 40 + y + len(large), x : x + large.shape[1]], large)
    assert frames[0].shape[0] > 2 * panel.height  # three conditions: two rows


def readout(**known):
    return Readout(policy_A=np.array([0.25, 0.75]), **known)


def drawn(one: Readout, action=0, **how):
    moment = Moment(np.zeros((84, 84, 3), np.uint8), None, one, action, 1.0, 2, **how)
    panel = Panel("snow", "paper", ["left", "right"], moment)
    return panel, panel.draw(moment)


def width_of(picture, colour, panel, row):
    y = panel._row_y(row)
    return (picture[y : y + panel.row, panel.bar_at : panel.bar_at + panel.bar_width] == colour).all(-1).any(0).sum()


def test_bars_are_as_long_as_the_probabilities_and_lambda_as_its_mean():
    one = readout(
        surrogate_A=np.array([1.0, 0.0]), q_A=np.array([1.0, -2.0]), alpha=0.5, lambda_KN=(("λ₁", np.array([0, 1])),)
    )
    panel, picture = drawn(one)
    for row, (actor, critic) in enumerate([(0.25, 1.0), (0.75, 0.0)]):
        assert width_of(picture, BLUE, panel, row) == round(actor * panel.bar_width)
        assert width_of(picture, ORANGE, panel, row) == round(critic * panel.bar_width)
    track = (picture[panel.lambda_at :, panel.left :] == GREEN).all(-1).any(0).sum()
    assert track == pytest.approx(0.5 * 332, abs=3)


def test_dsac_has_no_lambda_and_a_stranger_no_critic():
    panel, picture = drawn(readout(surrogate_A=np.array([0.5, 0.5]), q_A=np.zeros(2), alpha=1.0))
    assert not (picture == GREEN).all(-1).any()
    _, stranger = drawn(readout())
    assert not (stranger == ORANGE).all(-1).any()
    _, unknown = drawn(Readout())
    assert not (unknown == BLUE).all(-1).any()
    assert panel.template.shape == picture.shape


def test_an_ending_dims_the_picture_and_is_written_on_it():
    bright = Moment(np.full((84, 84, 3), 240, np.uint8), None, Readout(), None, 1.5, 2)
    panel = Panel("id", "", ["a"], bright)
    over = Moment(bright.picture, None, Readout(), None, 1.5, 2, "game over")
    assert panel.draw(over)[60:400, 20:400].mean() < 0.6 * panel.draw(bright)[60:400, 20:400].mean()


def test_many_actions_make_a_panel_higher_and_sizes_are_even():
    one = Readout(policy_A=np.full(40, 1 / 40))
    moment = Moment(np.zeros((85, 85, 3), np.uint8), None, one, 3, 1234.5, 2)
    panel = Panel("snow", "", [f"UPRIGHTFIRE{i}" for i in range(40)], moment)
    picture = arrange("a title that is far too long for a video as narrow as this one is " * 3, [panel.draw(moment)])
    assert panel.bar_width > 60
    assert picture.shape[0] > 700
    assert not any(side % 2 for side in picture.shape[:2])


def test_pictures_grow_by_whole_factors_and_shrink_where_they_must():
    small = np.arange(30 * 20 * 3, dtype=np.uint8).reshape(30, 20, 3)
    assert np.array_equal(fitted(small, 100), small.repeat(3, 0).repeat(3, 1))
    assert fitted(np.zeros((400, 600, 3), np.uint8), 420).shape == (280, 420, 3)


# --- who can be watched -----------------------------------------------------------------------------------------------


def test_the_mind_of_each_player_is_read_as_far_as_it_is_known(catcher):
    seen = np.random.default_rng(0).integers(256, size=(2, 84, 84, 3)).astype(np.uint8)
    _, read = reader_of(OwnPlayer(catcher))
    own = read(seen)[1]
    assert own.policy_A.sum() == pytest.approx(1)
    assert own.lambda_KN[0][0] == "λ₁"
    assert len(own.lambda_KN[0][1]) == DRAWS
    assert len({*own.lambda_KN[0][1]}) > 1
    _, read = reader_of(BlindPlayer(OwnPlayer(catcher)))
    assert np.array_equal(read(seen)[0].q_A, read(seen)[1].q_A)


def test_of_stable_baselines_the_policy_or_q_is_known():
    sb3 = pytest.importorskip("stable_baselines3")
    seen = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    ppo = reader_of(SB3Player(sb3.PPO("MlpPolicy", "CartPole-v1", device="cpu", seed=0)))[1](seen)[0]
    assert ppo.policy_A.sum() == pytest.approx(1)
    assert ppo.q_A is None
    dqn = reader_of(SB3Player(sb3.DQN("MlpPolicy", "CartPole-v1", device="cpu", seed=0, buffer_size=10)))[1](seen)[0]
    assert dqn.policy_A is None
    assert dqn.q_A.shape == (2,)


def test_of_an_exported_graph_the_policy_is_known(tmp_path):
    pytest.importorskip("onnxruntime")
    from dsacc.play.export import export_onnx

    model = DSAC("CartPole-v1", constraint="mean", **TINY)
    seen = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    own = reader_of(OwnPlayer(model))[1](seen)
    graph = reader_of(OnnxPlayer(export_onnx(model, tmp_path / "a.onnx").path))[1](seen)
    assert np.allclose([one.policy_A for one in graph], [one.policy_A for one in own], atol=1e-6)
    assert graph[0].q_A is None


def test_a_function_is_asked_once_a_step(tmp_path):
    asked = []

    def function(observations):
        asked.append(len(observations))
        return score(observations)

    made = watch(function, "dsacc/Catch-v0", out=tmp_path / "a.gif", shifts=["id"])
    assert len(asked) == made.steps["id"][0]


@pytest.mark.parametrize(
    ("name", "known"), [("random", [1 / 3] * 3), ("test_watch:score", [0.04, 0.11, 0.84]), ("test_watch:choice", None)]
)
def test_other_players_by_name(name, known, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    moments = []
    monkeypatch.setattr(play, "Moment", lambda *args: moments.append(Moment(*args)) or moments[-1])
    watch(name, "dsacc/Catch-v0", out=tmp_path / "a.gif", shifts=["id"])
    policy = moments[0].readout.policy_A
    assert moments[0].readout.q_A is None
    if known is None:
        assert policy is None
        assert moments[0].action == 2
    else:
        assert policy == pytest.approx(known, abs=0.01)


def test_numbers_are_shown_by_the_environments_own_picture(tmp_path):
    pytest.importorskip("pygame")
    made = watch(DSAC("CartPole-v1", **TINY), out=tmp_path / "a.gif", max_steps=5, fps=5)
    assert (made.shifts, made.frames) == (("id",), 10)


class Invisible(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)


class Undrawn(gym.Env):
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)


def test_what_cannot_be_seen_is_refused(tmp_path, monkeypatch):
    with pytest.raises(EnvError, match="gives its agent no pictures and has no render mode rgb_array"):
        watch("random", Invisible, out=tmp_path / "a.gif")
    with pytest.raises(EnvError, match="only be shown if it is made with render_mode='rgb_array'"):
        watch("random", Undrawn, out=tmp_path / "a.gif")

    def missing(self):
        raise gym.error.DependencyNotInstalled("pygame is not installed")

    from gymnasium.envs.classic_control import CartPoleEnv

    monkeypatch.setattr(CartPoleEnv, "render", missing)
    with pytest.raises(EnvError, match="CartPole-v1 needs a package that is not installed to draw itself: pygame"):
        watch("random", "CartPole-v1", out=tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("random --env dsacc/Catch-v0 --out a.avi", "the name of a video must end in .mp4 or .gif, unlike 'a.avi'"),
        ("random --env dsacc/Catch-v0 --out a", "the name of a video must end in .mp4 or .gif, unlike 'a'"),
        ("random", "random needs an environment to play; give --env"),
        ("nowhere", "there is no saved agent nowhere.safetensors, nor a run folder nowhere"),
        ("random --env dsacc/Catch-v0 --shifts snoow", "did you mean 'snow'"),
        ("random --env dsacc/Catch-v0 --severity 9", "severity is 'paper' or 1 to 5, not '9'"),
        ("random --env dsacc/Catch-v0 --shifts id snow rain fog blur", "at most 4 conditions fit into a video, not 5"),
        ("random --env dsacc/Catch-v0 --episodes 0", "--episodes must be at least 1, not 0"),
        ("random --env dsacc/Catch-v0 --max-steps 0", "--max-steps must be at least 1, not 0"),
        ("random --env dsacc/Catch-v0 --fps 0", "fps must be 1 to 120, not 0"),
        ("random --env dsacc/Catch-v0 --seed -1", "seed must be at least 0, not -1"),
        ("random --env dsacc/Catch-v0 --policy best", "invalid choice: 'best'"),
        ("random --env Pendulum-v1", "actions of type Box are not supported"),
        ("random --env FrozenLake-v1 --shifts fog", "fog"),
        ("sb3:a.zip --env Breakout", "there is no file a.zip"),
        ("", "the following arguments are required: RUN"),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_nothing_written(arguments, message, tmp_path, monkeypatch, capsys):
    assert_refused(f"watch {arguments}", message, tmp_path, monkeypatch, capsys)


def test_the_command_says_the_scores_and_where_the_video_is(catcher, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    catcher.save("agent")
    assert main(["watch", "agent", "--max-steps", "4"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("the video is in watch.mp4 (14 frames of ")
    assert "id: score 0 in 4 steps" in said.err
    assert "a game was cut after 4 steps; a higher --max-steps shows more" in said.err
    assert len(said.err.splitlines()) == 4 + 2 + 1  # how far it is, the scores, the cut


def test_without_ffmpeg_there_is_a_gif_and_a_line_about_mp4(catcher, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(film_module, "has_ffmpeg", lambda: False)
    catcher.save("agent")
    assert main(["watch", "agent", "--shifts", "id"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("the video is in watch.gif (")
    assert "`pip install imageio-ffmpeg` allows mp4" in said.err
    assert main(["watch", "agent", "--out", "a.mp4"]) == 2
    assert "or choose a file name that ends in .gif" in capsys.readouterr().err


def test_the_defaults_of_the_command_are_those_of_the_function():
    args = vars(build_parser().parse_args(["watch", "runs/a"]))
    for name, parameter in inspect.signature(watch).parameters.items():
        if name not in ("agent", "out", "progress_bar"):
            assert args[name] == parameter.default, name


def test_the_heading_of_a_hardened_agent_says_what_it_met_of_the_shift(catcher):
    def heading(shift, severity, *kinds):
        player = OwnPlayer(catcher)
        player.augmented = kinds
        return play._heading(player, Trial(shift, severity, "falling", "greedy"))

    assert heading("fog", "paper", "light", "fog") == ("fog", "paper, falling, trained on")
    assert heading("salt_pepper", 3, "specks") == ("salt pepper", "severity 3, falling, near")
    assert heading("fog", "paper", "light") == ("fog", "paper, falling, unseen")
    assert heading("fog", "paper") == ("fog", "paper, falling")
    assert heading("id", None, "fog") == ("clean", "")
    hardened = OwnPlayer(catcher)
    hardened.agent = "dsac-m, hardened"
    assert play._title(hardened, "dsacc/Catch-v0", "greedy").startswith("DSAC-M, hardened on Catch, ")


def test_what_is_not_allowed_has_no_share_and_lambda_is_that_of_the_rest():
    """A masked agent of three actions is read as the same agent with two."""
    large, small = (DSAC(Actions(count), "mean", hidden=16) for count in (3, 2))
    state = large.learner.state()
    small.learner.load_state({k: v[[0, 2]] if ".head" in k else v for k, v in state.items()})
    seen, masks = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32), np.tile([True, False, True], (5, 1))
    (_, read), (_, wanted) = (reader_of(OwnPlayer(model)) for model in (large, small))
    for one, two in zip(read(seen, masks), wanted(seen), strict=True):
        assert one.policy_A == pytest.approx(np.insert(two.policy_A, 1, 0.0))
        assert one.surrogate_A == pytest.approx(np.insert(two.surrogate_A, 1, 0.0))
        assert one.lambda_KN[0][1] == pytest.approx(two.lambda_KN[0][1], abs=1e-6)
        assert one.allowed_A.tolist() == [True, False, True]
    share = reader_of(RandomPlayer(3))[1](seen, masks)[0].policy_A
    assert share.tolist() == [0.5, 0.0, 0.5]


class Actions(Probe):
    """So many actions."""

    def __init__(self, count):
        self.actions = count
        super().__init__()
