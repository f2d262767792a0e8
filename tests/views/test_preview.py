"""The picture of the shifts: what is in it is what the agent gets."""

import inspect

import cv2
import numpy as np
import pytest
from helpers.mistakes import assert_refused

from dsacc import Shift, make_env
from dsacc.cli import build_parser, main
from dsacc.envs.filters import high_pass
from dsacc.errors import ConfigError
from dsacc.views.preview import LINE, MARGIN, _play, preview


def read(path) -> np.ndarray:
    return cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)


def contains(picture: np.ndarray, part: np.ndarray) -> bool:
    """Whether `part` stands somewhere in `picture`, byte for byte."""
    height, width = part.shape[:2]
    corner = part[0].tobytes()
    for y in range(len(picture) - height + 1):
        row = picture[y].tobytes()
        at = row.find(corner)
        while at >= 0:
            if at % 3 == 0 and np.array_equal(picture[y : y + height, at // 3 : at // 3 + width], part):
                return True
            at = row.find(corner, at + 1)
    return False


def seen(env, steps: int):
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    for _ in range(steps):
        observation = env.step(env.action_space.sample())[0]
    return observation, env.render()


def test_each_cell_is_the_screen_and_what_the_network_gets_pixel_by_pixel(tmp_path):
    out = preview(["Breakout"], tmp_path / "a.png", shifts=["salt_pepper"], severities=[4], steps=5)
    picture = read(out)
    for env in (make_env("Breakout"), Shift(make_env("Breakout"), "salt_pepper", 4)):
        observation, screen = seen(env, 5)
        assert contains(picture, screen.repeat(2, 0).repeat(2, 1))
        grey = np.broadcast_to(observation[-1][..., None], (84, 84, 3))
        assert contains(picture, grey.repeat(4, 0).repeat(4, 1))


def test_many_columns_are_narrow_and_a_coloured_observation_is_shown_once(tmp_path):
    few = read(preview(["dsacc/Catch-v0"], tmp_path / "a.png", shifts=["blur"], steps=3))
    many = read(preview(["dsacc/Catch-v0"], tmp_path / "b.png", shifts=["blur", "contrast"], severities=[1, 2, 3, 4]))
    assert 336 < few.shape[0] < 2 * 336
    assert 2 * 336 < few.shape[1] < 3 * 336
    assert 168 < many.shape[0] < 2 * 168
    assert 9 * 168 < many.shape[1] < 10.5 * 168


def test_modes_are_rows_of_successive_frames(tmp_path):
    out = preview(["Breakout"], tmp_path / "a.png", shifts=["occlusion"], modes=True, steps=6)
    picture = read(out)
    for mode in ("independent", "frozen", "falling"):
        stack, _ = seen(Shift(make_env("Breakout"), "occlusion", mode=mode), 6)
        for grey in stack:
            assert contains(picture, np.broadcast_to(grey[..., None], (84, 84, 3)).repeat(2, 0).repeat(2, 1))


def test_all_cells_show_the_same_moment_of_the_same_game():
    clean = _play(make_env("Breakout"), 3, 40, 2)
    shifted = _play(Shift(make_env("Breakout"), "occlusion", 1), 3, 40, 2)
    for a, b in zip(clean.colour, shifted.colour, strict=True):
        assert 0 < (a != b).any(-1).mean() < 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "CartPole-v1 --shifts blur",
            "CartPole-v1 gives its agent no pictures; a preview needs",
        ),
        ("Taxi-v4 --shifts blur", "gives its agent no pictures"),
        ("Breakout --shifts blurr", "did you mean 'blur'"),
        ("Breakout --shifts blur --severities 9", "severity is 'paper' or 1 to 5, not '9'"),
        ("Breakout --shifts blur --mode no", "argument --mode: invalid choice: 'no'"),
        ("Breakout --shifts blur --steps -1", "--steps must be at least 0"),
        ("Breakout --shifts blur --out a.jpg", "its name must end in .png, unlike 'a.jpg'"),
        ("Breakout --shifts blur --seed -1", "seed"),
        ("Braekout --shifts blur", "did you mean 'Breakout'"),
        ("", "the following arguments are required: ENV"),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_nothing_written(arguments, message, tmp_path, monkeypatch, capsys):
    assert_refused(f"preview {arguments}", message, tmp_path, monkeypatch, capsys)


def test_the_command_says_where_the_picture_is(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["preview", "dsacc/Catch-v0", "--shifts", "blur", "--severities", "paper", "5", "--steps", "4"]
    assert main([*command, "--out", "here/a.png"]) == 0
    assert capsys.readouterr().out == "the preview is in here/a.png\n"
    assert read("here/a.png").ndim == 3
    first = (tmp_path / "here" / "a.png").read_bytes()
    assert main([*command, "--out", "here/a.png"]) == 0
    assert (tmp_path / "here" / "a.png").read_bytes() == first


def test_the_defaults_of_the_command_are_those_of_the_function():
    args = vars(build_parser().parse_args(["preview", "Breakout"]))
    for name, parameter in inspect.signature(preview).parameters.items():
        if name not in ("envs", "out", "plain"):  # plain is for the report
            default = parameter.default
            assert args[name] == (list(default) if isinstance(default, tuple) else default)


def test_a_name_that_is_no_picture_file_is_refused_before_anything_is_played(tmp_path):
    with pytest.raises(ConfigError, match="PNG"):
        preview(["no such game"], tmp_path / "a.gif")


def test_a_filter_shows_what_its_agent_sees_beneath_the_picture():
    plain, behind = (_play(make_env("dsacc/Catch-v0"), 0, 3, 1, name) for name in ("none", "high-pass"))
    assert plain.agent == []
    assert (behind.colour[0] == plain.colour[0]).all()
    assert (behind.agent[0][..., 1] == high_pass(np.ascontiguousarray(plain.colour[0][..., 1]))).all()


def test_plain_pictures_are_the_same_pixels_without_words_on_a_clear_ground(tmp_path):
    out, plain = tmp_path / "words.png", tmp_path / "plain.png"
    preview(["dsacc/Catch-v0"], out, shifts=["fog"], steps=3, plain=plain)
    with_words, alone = read(out), cv2.cvtColor(cv2.imread(str(plain), cv2.IMREAD_UNCHANGED), cv2.COLOR_BGRA2RGBA)
    height, width = alone.shape[:2]
    seen = alone[..., 3] == 255
    assert set(np.unique(alone[..., 3])) == {0, 255}
    assert seen[:, 0].all()
    assert not seen[:, width // 2].any()  # two pictures with a gap between them
    there = with_words[LINE : LINE + height, MARGIN : MARGIN + width]
    assert (there[seen] == alone[..., :3][seen]).all()
