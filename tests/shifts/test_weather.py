import cv2
import numpy as np
import pytest
from scipy import ndimage

from dsacc.shifts import noise, weather
from dsacc.shifts.kinds import LEVELS, find_kind

SHAPE = (210, 160, 3)
BLACK, WHITE = np.zeros(SHAPE, np.uint8), np.full(SHAPE, 255, np.uint8)
KINDS = ("snow", "rain", "fog")
# Percentiles 5 / 50 / 95 over 2,000 draws of imgaug 0.4.0 at 210x160, on black (`make weather-oracle`)
FIGURES = {
    "fog": {"mean opacity": (0.398, 0.617, 0.842), "mean intensity": (219, 235, 247)},
    "snow": {"mean level": (2.35, 15.0, 31.2), "share above 128": (0.00375, 0.0353, 0.0874)},
    "rain": {"mean level": (13.4, 41.5, 74.1), "share above 20": (0.216, 0.877, 0.998)},
}


def draw(kind, seed=0, shape=SHAPE, level=None):
    return find_kind(kind).draw(np.random.default_rng(seed), shape, level)


def picture(shape=SHAPE, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def game():
    """Black, with a grey frame, coloured rows and a small ball: bright here, dark there."""
    out = BLACK.copy()
    out[17:32], out[32:, :8], out[32:, -8:] = 142, 142, 142
    out[57:93] = np.repeat(np.linspace(70, 210, 6), 6)[:, None, None] * np.array([1, 0.5, 0.3])
    out[130:134, 80:82] = 200
    return out


def figures(kind, change):
    dark = change(BLACK)[..., 0].astype(float)
    if kind == "fog":
        opacity = 1 - (change(WHITE)[..., 0] - dark) / 255
        return {"mean opacity": opacity.mean(), "mean intensity": (dark / opacity).mean()}
    level = 128 if kind == "snow" else 20
    return {"mean level": dark.mean(), f"share above {level}": (dark > level).mean()}


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_figures_of_the_papers_tool(kind):
    rng = np.random.default_rng(7)
    drawn = [figures(kind, find_kind(kind).draw(rng, SHAPE, None)) for _ in range(600)]
    for name, (low, median, high) in FIGURES[kind].items():
        got = np.percentile([each[name] for each in drawn], (5, 50, 95))
        assert got[1] == pytest.approx(median, rel=0.1), name
        assert got[2] == pytest.approx(high, rel=0.15), name
        assert 0.6 * low < got[0] < 1.5 * low, name


@pytest.fixture
def layers(monkeypatch):
    """The layers of the draws that follow, as they are before they become planes."""
    seen = []
    for name in ("_veils", "_flakes"):
        compose = getattr(weather, name)
        monkeypatch.setattr(weather, name, lambda found, compose=compose: seen.append(found) or compose(found))
    return seen


def middle(plane, change):
    (top, left), (height, width, _) = change.origin, SHAPE
    return np.broadcast_to(plane, change.planes.shape[1:])[top : top + height, left : left + width, None]


def test_the_noises_of_fog_have_the_spectra_of_the_papers_tool(monkeypatch):
    asked, make = [], weather.frequency_noise

    def watched(rng, size, exponent, longest):
        asked.append((exponent, longest))
        return make(rng, size, exponent, longest)

    monkeypatch.setattr(weather, "frequency_noise", watched)
    for seed in range(300):
        draw("fog", seed, (24, 16, 1))
    fine, thick = np.array(asked[::2]), np.array(asked[1::2])  # of the intensity, of the opacity
    for drawn, (low, high) in ((fine[:, 0], (-2, -1.5)), (thick[:, 0], (-4, -2))):
        assert low <= drawn.min() < low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) < drawn.max() <= high
        assert drawn.mean() == pytest.approx((low + high) / 2, abs=0.05 * (high - low))
    assert set(fine[:, 1]) == {24}
    assert set(thick[:, 1]) == set(range(2, 9))


@pytest.mark.parametrize(("level", "density"), [(1, 0.4), (3, 0.65)])
def test_fog_is_as_dense_as_its_thickness_to_the_power_of_nine_tenths(level, density, layers):
    """Its thickness is from 0.7 to 1.2. At these levels it is nowhere opaque, so that nothing is cut off."""
    for seed in range(200):
        draw("fog", seed, (24, 24, 1), level)
    found = [opacity for ((opacity, _),) in layers]
    assert min(a.min() for a in found) == pytest.approx(density * 0.7**0.9, rel=0.01)
    assert max(a.max() for a in found) == pytest.approx(density * 1.2**0.9, rel=0.01)


def test_rain_hides_thirteen_tenths_of_its_brightness(layers):
    """A drop has one of 256 levels. Streaks dim it, so that it hardly ever hides everything."""
    for seed in range(20):
        draw("rain", seed)
    hidden = np.concatenate([a.ravel() for found in layers for a, _ in found])
    levels = hidden[hidden < 1] * 255 / 1.3
    assert np.abs(levels - np.rint(levels)).max() < 1e-3
    assert set(range(1, 100)) <= set(np.rint(levels).astype(int))


@pytest.mark.parametrize(("kind", "most"), [("fog", 1), ("rain", 3)])
def test_veils_are_within_a_few_levels_of_blending_each_layer_in_floats(kind, most, layers):
    counts = set()
    for seed in range(25):
        change, seen = draw(kind, seed), picture(seed=seed)
        counts.add(len(layers[-1]))
        for given in (seen, BLACK, WHITE):
            want = given
            for a, colour in layers[-1]:
                a_HW1, colour_HW1 = (middle(each, change).astype(np.float64) for each in (a, colour))
                want = ((1 - a_HW1) * want + a_HW1 * colour_HW1).astype(np.uint8)
            off = change(given).astype(int) - want
            assert np.abs(off).max() <= (most if given is not BLACK else 1)
            assert abs(off.mean()) < 1
    assert counts == ({1} if kind == "fog" else {1, 2, 3})


def test_snow_is_bit_for_bit_its_layers_one_after_the_other(layers):
    for seed in range(25):
        change, seen = draw("snow", seed), picture(seed=seed)
        want = seen
        for s, m in layers[-1]:
            want = np.minimum(want.astype(int) + middle(s, change), 255)
            want = np.maximum(want, middle(m, change))
        np.testing.assert_array_equal(change(seen), want)
    assert {len(each) for each in layers} == {1, 2, 3}


@pytest.mark.parametrize("kind", ["snow", "rain"])
def test_where_nothing_falls_the_picture_is_untouched(kind):
    seen = picture()
    fall = draw(kind, 3, level=1)
    clear = fall(BLACK) == 0
    assert clear.any()
    if kind == "snow":
        np.testing.assert_array_equal(fall(seen)[clear], seen[clear])
    else:  # a trace of rain, too thin to light black, may dim white
        assert np.abs(fall(seen).astype(int) - seen)[clear].max() <= 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", [None, 1, 5])
def test_a_seed_fixes_the_weather(kind, level):
    seen = picture()
    one, same, other = (draw(kind, seed, level=level) for seed in (1, 1, 2))
    for t in (0, 5):
        np.testing.assert_array_equal(one(seen, t), same(seen, t))
        assert (one(seen, t) != other(seen, t)).mean() > 0.001


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_changes_nothing(kind):
    before, seen, out = cv2.getNumThreads(), picture(), []
    try:
        for threads in (1, 4):
            cv2.setNumThreads(threads)
            out.append([draw(kind, seed)(seen, 3 * seed) for seed in range(6)])
    finally:
        cv2.setNumThreads(before)
    np.testing.assert_array_equal(*out)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape", [SHAPE, (210, 160, 1), (16, 16, 3), (16, 16, 1), (84, 84, 1), (64, 48, 3), (16, 99, 3)]
)
def test_any_size_keeps_its_shape_and_what_is_given_is_not_touched(kind, shape):
    seen = picture(shape)
    before = seen.copy()
    seen.setflags(write=False)
    changed = False
    for seed, level in enumerate((None, None, *LEVELS)):
        change = draw(kind, seed, shape, level)
        for t in (0, 1, 17, 100_003):
            out = change(seen, t)
            assert (out.shape, out.dtype) == (shape, np.uint8)
            assert out.flags.c_contiguous
            assert not np.shares_memory(out, change.planes)
            changed |= bool((out != seen).any())
    assert changed
    np.testing.assert_array_equal(seen, before)


@pytest.mark.parametrize("kind", KINDS)
def test_every_channel_gets_the_same_weather(kind):
    grey = np.repeat(picture((210, 160, 1)), 3, axis=2)
    for t in (0, 50):
        out = draw(kind, 4)(grey, t)
        np.testing.assert_array_equal(out, np.repeat(out[..., :1], 3, axis=2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [SHAPE, (84, 84, 1)])
def test_a_higher_level_changes_more(kind, shape):
    scene = cv2.resize(game(), shape[1::-1])[..., : shape[2]]
    for seen in (scene.copy(), np.zeros(shape, np.uint8)):
        rng = np.random.default_rng(11)
        away = []
        for level in LEVELS:
            drawn = [find_kind(kind).draw(rng, shape, level)(seen) for _ in range(40)]
            away.append(np.mean([np.abs(each.astype(int) - seen).mean() for each in drawn]))
        assert all(np.diff(away) > 0.02 * np.array(away[1:])), away


@pytest.mark.parametrize("kind", KINDS)
def test_weather_moves_as_one_and_comes_round_without_a_seam(kind):
    for seed in range(8):
        change = draw(kind, seed)
        rows, columns = change.planes.shape[1:]
        v = np.array(change.velocity)
        tall = [np.roll(change.planes, tuple(-o for o in change.origin), (1, 2))]  # the torus from the window's corner
        for t in (0, 1, 2, 3, 40, 1000):
            moved = np.round(v * t).astype(int)
            want = np.roll(tall[0], tuple(moved), (1, 2))[:, :210, :160]
            got = change.window((210, 160, 1), t)
            np.testing.assert_array_equal(np.stack(got)[..., 0], want)
        if kind == "fog":
            assert v[0] == 0
            assert 0.2 < abs(v[1]) < 1.1
        else:
            assert v[0] > abs(v[1])
            assert v[0] < {"snow": 0.03, "rain": 0.2}[kind] * 210 + 1
        # neighbours across what would be the seam differ no more than neighbours elsewhere
        plane = change.planes[1].astype(float)
        for axis, moving in ((0, v[0]), (1, v[1])):
            steps = np.abs(plane - np.roll(plane, 1, axis)).mean(axis=1 - axis)
            if moving:
                assert steps.max() < 3 * np.quantile(steps, 0.9) + 2, (kind, seed, axis)
        assert (rows, columns) >= SHAPE[:2]


@pytest.mark.parametrize("kind", KINDS)
def test_from_one_frame_to_the_next_most_stays_in_view(kind):
    for seed in range(5):
        change = draw(kind, seed)
        now, then = (change(BLACK, t)[..., 0].astype(float) for t in (6, 7))
        y, x = np.round(np.array(change.velocity) * 7).astype(int) - np.round(np.array(change.velocity) * 6).astype(int)
        before = now[: 210 - y, max(-x, 0) : 160 - max(x, 0)]
        after = then[y:, max(x, 0) : 160 - max(-x, 0)]
        np.testing.assert_array_equal(before, after)
        assert before.size > 0.7 * now.size


def test_a_bank_of_256_stays_below_150_megabytes():
    for kind in KINDS:
        assert 256 * draw(kind).nbytes < 150e6


def test_streaks_point_the_way_of_the_fall():
    for angle in (-30.0, -10.0, 0.0, 15.0):
        dot = np.zeros((101, 101), np.uint8)
        dot[50, 50] = 255
        out = noise.blur_by_fall(dot, noise.streak(21, angle), (10, 10))[10:-10, 10:-10]
        down, right = np.array(ndimage.center_of_mass(out)) - 50  # the bright end pulls the centre forward
        assert down > 1
        assert right / down == pytest.approx(-np.tan(np.radians(angle)), abs=0.1)


def test_a_draw_falls_along_its_own_streaks():
    slants = []
    for seed in range(20):
        change = draw("rain", seed, level=1)  # one layer
        down, across = np.gradient(change(BLACK)[..., 0].astype(float))
        slant = -(down * across).sum() / (across**2).sum()  # columns a row, along which the picture changes least
        slants.append((slant, change.velocity[1] / change.velocity[0]))
    streaks, fall = np.array(slants).T
    assert np.corrcoef(streaks, fall)[0, 1] > 0.95
    assert np.abs(fall).max() < np.tan(np.radians(15))


def test_streaks_at_the_edges_are_those_of_a_mirrored_picture():
    dots = picture((60, 40, 1))[..., 0]
    for length, angle, margin in ((3, 20.0, (1, 1)), (21, -14.0, (10, 4)), (43, 15.0, (21, 7))):
        kernel = noise.streak(length, angle)
        out = noise.blur_by_fall(dots, kernel, margin)[margin[0] :, margin[1] :][:60, :40]
        want = ndimage.correlate(dots.astype(float), kernel, mode="mirror")
        assert np.abs(out - want).max() <= 0.51


def test_noise_has_the_spectrum_that_was_asked_for():
    rng, size = np.random.default_rng(0), (64, 48)
    for exponent in (-2.0, -1.5):
        power = np.mean(
            [np.abs(np.fft.fft2(noise.frequency_noise(rng, size, exponent, 64))) ** 2 for _ in range(200)], axis=0
        )
        near, far = power[2, 2] + power[-2, -2], power[12, 12] + power[-12, -12]
        assert np.log(near / far) / np.log(1 / 6) == pytest.approx(2 * exponent, abs=0.35)


def test_noise_fills_zero_to_one():
    rng = np.random.default_rng(0)
    for size in ((210, 160), (16, 16), (84, 84)):
        fine = noise.frequency_noise(rng, size, -1.7, max(size))
        assert (fine.min(), fine.max()) == (0, 1)
        coarse = noise.frequency_noise(rng, size, -3, 2)
        assert coarse.shape == size
        assert coarse.min() >= 0
        assert coarse.max() <= 1
        assert coarse.std() > 0.1
