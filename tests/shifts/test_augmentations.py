import numpy as np
import pytest

from dsacc.errors import ConfigError
from dsacc.shifts import Augmenter, augmentation_names, exposure, names, register_augmentation, resolve
from dsacc.shifts import augmentations as room
from dsacc.shifts.kinds import find_kind

KINDS = [name for name in augmentation_names() if name not in room.SETS]
SHAPES = [(4, 40, 44), (40, 44, 3), (40, 44), (4, 40, 44, 3)]


def pictures(shape, count=6):
    return np.random.default_rng(1).integers(0, 256, (count, *shape), dtype=np.uint8)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_changes_pictures_of_every_layout_and_leaves_its_input_alone(kind, shape):
    if kind == "saturation" and shape != (40, 44, 3) and shape != (4, 40, 44, 3):
        with pytest.raises(ConfigError, match="grey"):
            Augmenter([kind], shape)
        return
    before = pictures(shape)
    given = before.copy()
    out = Augmenter([kind], shape)(given, pictures(shape, 9)[3:], np.random.default_rng(0))
    assert out.shape == given.shape
    assert out.dtype == np.uint8
    assert (given == before).all()
    assert (out != before).mean() > 0.001


@pytest.mark.parametrize("kinds", ["generic", "near"])
def test_the_same_generator_gives_the_same_pictures_whatever_was_drawn_before(kinds):
    given = pictures((4, 40, 44))
    fresh, used = Augmenter([kinds], (4, 40, 44)), Augmenter([kinds], (4, 40, 44))
    for seed in range(5):
        used(given, given, np.random.default_rng(100 + seed))
    for seed in range(5):
        one, two = (a(given, given, np.random.default_rng(seed)) for a in (fresh, used))
        assert (one == two).all()


def test_generic_has_nothing_that_looks_like_weather_and_near_has_all_of_it():
    looks = {kind: room._look(kind) for kind in resolve("near")}
    weather = {find_kind(shift).look for shift in ("snow", "rain", "fog")}
    assert weather.isdisjoint(looks[kind] for kind in resolve("generic"))
    assert weather <= set(looks.values())
    assert not {"snow", "rain", "fog"} & set(looks)


@pytest.mark.parametrize(
    ("shift", "kinds", "word"),
    [
        ("snow", ["generic"], "unseen"),
        ("snow", ["near"], "near"),
        ("rain", ["snow"], "near"),
        ("fog", ["snow"], "unseen"),
        ("fog", ["light", "fog"], "trained on"),
        ("contrast", ["generic"], "near"),
        ("blur", ["generic"], "near"),
        ("occlusion", ["generic"], "near"),
        ("gaussian_noise", ["generic"], "near"),
        ("salt_pepper", ["generic"], "unseen"),
        ("salt_pepper", ["specks"], "near"),
    ],
)
def test_what_was_met_of_a_shift_is_said_in_one_of_three_words(shift, kinds, word):
    assert exposure(shift, resolve(kinds)) == word


def test_a_shift_of_ones_own_without_a_look_is_near_only_to_itself():
    assert exposure("saturation", ["saturation"]) == "trained on"
    assert all(exposure("saturation", [kind]) == "unseen" for kind in KINDS if kind != "saturation")


def test_frames_of_a_stack_are_changed_each_by_itself_and_a_quarter_of_the_stacks_alike():
    still = np.repeat(pictures((1, 40, 44), 400), 4, axis=1)
    out = Augmenter(["light"], (4, 40, 44))(still, still, np.random.default_rng(0))
    alike = np.array([(stack == stack[0]).all() for stack in out])
    assert 0.17 < alike.mean() < 0.33
    assert not (out[~alike][:, 0] == out[~alike][:, 1]).all(axis=(1, 2)).any()


def test_a_kind_of_ones_own_is_drawn_from_its_generator():
    register_augmentation("mirror", lambda rng, shape: lambda picture, other: picture[:, ::-1])
    try:
        given = pictures((40, 44))
        out = Augmenter(["mirror"], (40, 44))(given, given, np.random.default_rng(0))
        assert (out == given[:, :, ::-1]).all()
        assert "mirror" in augmentation_names()
    finally:
        del room._AUGMENTATIONS["mirror"]


def test_unknown_names_are_refused_with_the_nearest_known_one():
    with pytest.raises(ConfigError, match="unknown augmentation 'overlai'; did you mean 'overlay'"):
        resolve(["overlai"])
    with pytest.raises(ConfigError, match="choose among generic, near"):
        resolve([])


def test_every_shift_of_pictures_can_be_named():
    assert resolve([*names(), "generic", "light"]) == tuple(dict.fromkeys([*names(), *resolve("generic")]))
