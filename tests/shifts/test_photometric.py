"""Light, colour, sharpness and sensor: stronger with each level, the same from the same seed, and never in place."""

import itertools

import numpy as np
import pytest

from dsacc.envs.catch import Catch
from dsacc.errors import ConfigError
from dsacc.shifts import LEVELS, find_kind, names, photometric

KINDS = ["gaussian_noise", "contrast", "saturation", "brightness", "salt_pepper", "occlusion", "blur"]
SHAPES = [(210, 160, 3), (84, 84, 1), (16, 16, 3), (17, 40, 1)]


def game(shape: tuple[int, ...]) -> np.ndarray:
    """Flat colours with sharp edges on a dark ground, as games have them."""
    rng = np.random.default_rng(5)
    picture = np.zeros(shape, np.uint8)
    picture[: shape[0] // 3] = rng.integers(30, 120, shape[2])
    for _ in range(12):
        y, x = (int(rng.integers(side - 3)) for side in shape[:2])
        h, w = (int(rng.integers(2, max(side // 4, 3))) for side in shape[:2])
        picture[y : y + h, x : x + w] = rng.integers(256, size=shape[2])
    return picture


def draw(name: str, shape: tuple[int, ...], level: int | None, seed: int = 0):
    return find_kind(name).draw(np.random.default_rng(seed), shape, level)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(int) - b).mean())


CASES = [(name, shape) for name in KINDS for shape in SHAPES if (name, shape[2]) != ("saturation", 1)]


def test_all_are_registered():
    assert set(KINDS) <= set(names())


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_distance_from_the_clean_picture_grows_with_the_level(name, shape):
    clean = game(shape)
    means = [np.mean([distance(draw(name, shape, k, seed)(clean), clean) for seed in range(40)]) for k in LEVELS]
    assert means[0] > 0
    assert all(a < b for a, b in itertools.pairwise(means)), means
    paper = np.mean([distance(draw(name, shape, None, seed)(clean), clean) for seed in range(40)])
    assert means[0] < paper < means[-1]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_a_draw_is_its_seed_and_leaves_what_it_is_given(name, shape):
    clean = game(shape)
    before = clean.copy()
    clean.flags.writeable = False
    for level in (None, 5):
        change = draw(name, shape, level, seed=3)
        first, again = change(clean), draw(name, shape, level, seed=3)(clean, 7)
        assert first.tobytes() == again.tobytes() == change(clean).tobytes()
        assert (first.shape, first.dtype) == (shape, np.uint8)
        assert first.flags.c_contiguous
        first[:] = 0
        assert np.array_equal(clean, before)
        assert change(clean).tobytes() == again.tobytes()
        assert change.nbytes <= 550_000


@pytest.mark.parametrize("name", ["gaussian_noise", "salt_pepper", "occlusion"])
def test_draws_differ(name):
    clean = game(SHAPES[0])
    assert len({draw(name, SHAPES[0], 3, seed)(clean).tobytes() for seed in range(5)}) == 5


def test_noise_has_its_standard_deviation():
    grey = np.full((210, 160, 3), 128, np.uint8)
    for level, std in enumerate(photometric.NOISE[:3], 1):
        assert abs(draw("gaussian_noise", grey.shape, level)(grey).std() - 255 * std) < 2


def test_contrast_keeps_the_mean_and_scales_what_differs_from_it():
    clean = game(SHAPES[0])
    left = draw("contrast", clean.shape, 1)(clean)
    assert abs(left.mean() - clean.mean()) < 0.5
    assert abs(left.std() / clean.std() - 0.4) < 0.01


def test_saturation_equals_that_of_hsv():
    import cv2

    clean = game(SHAPES[0])
    hsv = cv2.cvtColor(clean.astype(np.float32), cv2.COLOR_RGB2HSV)
    hsv[..., 1] *= 0.4
    wanted = cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)
    assert np.abs(draw("saturation", clean.shape, 3)(clean) - wanted).max() <= 1


def test_saturation_of_a_grey_picture_is_refused():
    with pytest.raises(ConfigError, match="saturation changes nothing in a grey picture"):
        draw("saturation", (84, 84, 1), 3)


def test_brightness_adds_and_stops_at_white():
    clean = game(SHAPES[0])
    assert np.array_equal(draw("brightness", clean.shape, 5)(clean), np.minimum(clean.astype(int) + 128, 255))


def test_salt_and_pepper_are_as_many_as_they_should_be_and_cover_all_channels():
    grey = np.full((210, 160, 3), 100, np.uint8)
    seen = draw("salt_pepper", grey.shape, 5)(grey)
    for value in (0, 255):
        assert abs((seen == value).all(-1).mean() - 0.27 / 2) < 0.01
    assert ((seen == seen[..., :1]).all(-1)).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_an_occlusion_has_its_area(shape):
    black = np.zeros(shape, np.uint8)
    for level, area in zip(LEVELS, photometric.OCCLUSION, strict=True):
        shares = [(draw("occlusion", shape, level, seed)(black) > 0).mean() for seed in range(40)]
        assert abs(np.mean(shares) - area) < 0.35 * area


def test_a_blur_hides_as_much_at_any_resolution():
    small = Catch().reset(seed=0)[0]
    large = small.repeat(3, 0).repeat(3, 1)
    a, b = (draw("blur", x.shape, 5)(x) for x in (small, large))
    assert distance(a, b[1::3, 1::3]) < 2 < distance(a, small)
