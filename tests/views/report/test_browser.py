"""The page in a real browser: opened from disk, on a wide and a narrow screen, light and dark, by mouse and by keys."""

import json
import re

import pytest
from helpers.browser import Browser, find_chromium
from helpers.studies import synthetic_study
from PIL import Image

from dsacc.views.report import gallery, write_report

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on PATH; `apt-get install chromium` brings one, and these tests then run"
)

# The contrast of an element's text with the nearest background that is painted, as WCAG 2 computes it.
CONTRAST = """(selector => {
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; }
    return [255, 255, 255]; };
  return [...document.querySelectorAll(selector)].filter(e => e.getClientRects().length).map(e => {
    const ink = parse(getComputedStyle(e).color);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05); }); })"""


@pytest.fixture(scope="module", autouse=True)
def small_pictures():
    """Noise in place of the weather, which takes seconds a game."""

    def preview(envs, out, *, plain, **how):
        out.parent.mkdir(parents=True, exist_ok=True)
        for path in (out, plain):
            Image.effect_noise((1400, 500), 50).save(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "preview", preview)
        yield


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(CHROMIUM or "", tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    synthetic_study(
        out, games=("Breakout", "Seaquest"), agents=("dsac", "dsac-m", "dsac-v"), severity=(1, 5), points=30, checks=3
    )
    return write_report(out)


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_opens_from_disk_without_an_error_and_asks_for_nothing_else(browser, page, dark):
    browser.open(page, dark=dark)
    assert browser.log == []
    assert [u for u in browser.requests if not u.startswith("data:")] == [page.resolve().as_uri()]
    assert browser.run("document.title").startswith("SYNTHETIC study")


def test_every_picture_and_figure_has_a_size(browser, page):
    browser.open(page)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.run("document.getElementById('show-all').click()")
    sizes = browser.run(
        "[...document.querySelectorAll('img, figure .strips, figure [role=img] > svg')]"
        ".map(e => { const b = e.getBoundingClientRect();"
        " return [b.width, b.height, e.naturalWidth ?? 1]; })"
    )
    assert len(sizes) > 20
    assert all(width > 100 and height > 50 and natural > 0 for width, height, natural in sizes)


COLUMN = (
    "[...document.querySelector('#scores table.sortable').tBodies[0].rows].map(r => Number(r.cells[2].dataset.value))"
)
HEAD = "#scores table.sortable thead th:nth-child(3)"


def test_a_click_sorts_a_table_and_a_third_brings_its_order_back(browser, page):
    browser.open(page)
    first = browser.run(COLUMN)
    assert len(first) == 42  # seven conditions, three agents, greedy and sampled
    browser.click(f"{HEAD} button")
    assert browser.run(COLUMN) == sorted(first, reverse=True)
    assert browser.run(f"document.querySelector('{HEAD}').ariaSort") == "descending"
    assert "sorted by Breakout, descending" in browser.run("document.getElementById('said').textContent")
    browser.click(f"{HEAD} button")
    assert browser.run(COLUMN) == sorted(first)
    browser.click(f"{HEAD} button")
    assert browser.run(COLUMN) == first
    assert browser.run(f"document.querySelector('{HEAD}').ariaSort") == "none"


@pytest.mark.parametrize("key", ["Enter", " "])
def test_a_table_is_sorted_by_keyboard(browser, page, key):
    browser.open(page)
    first = browser.run(COLUMN)
    browser.run(f"document.querySelector('{HEAD}').previousElementSibling.querySelector('button').focus()")
    browser.press("Tab")
    assert browser.run("document.activeElement.textContent") == "Breakout"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press(key)
    assert browser.run(COLUMN) == sorted(first, reverse=True)


def test_the_switch_shows_one_way_of_acting_or_both(browser, page):
    browser.open(page)
    seen = "[...document.querySelectorAll('#scores .by-policy')].map(e => e.getClientRects().length > 0)"
    assert browser.run(seen) == [True, False]
    browser.click("#show-p1")
    assert browser.run(seen) == [False, True]
    browser.click("#show-all")
    assert browser.run(seen) == [True, True]
    browser.open(page, media="print")
    assert browser.run(seen) == [True, True]


def test_both_ways_of_acting_stand_in_the_score_table_and_published_agents_when_asked_for(browser, page):
    browser.open(page)
    tags = browser.run("[...document.querySelectorAll('#scores tbody th small')].map(e => e.textContent).slice(0, 4)")
    assert tags == ["greedy", "sampled", "greedy", "sampled"]
    assert browser.run("document.querySelector('#scores tbody th small').getClientRects().length") > 0
    seen = "[...document.querySelectorAll('tr.published')].map(e => e.getClientRects().length > 0)"
    assert browser.run(seen) == [False] * 7
    browser.click("#show-published")
    assert browser.run(seen) == [True] * 7
    assert browser.run("document.querySelector('tr.published').cells[2].textContent") == "0.7"  # SAC (2019), Breakout


READER = "#learning .reader"
SAID = "document.querySelector('#learning .reader').getAttribute('aria-valuetext')"
SHOWN = "(e => e.hidden ? '' : e.innerText)(document.querySelector('#learning .readout'))"


def logged(page):
    """Step, and each seed's return there, of DSAC in Breakout, as the run folders have it."""
    runs = sorted((page.parent / "runs").glob("Breakout-dsac-s*-*/metrics.jsonl"))
    rows = [[json.loads(line) for line in path.read_text().splitlines()] for path in runs]
    return {seeds[0]["step"]: [row["return"] for row in seeds] for seeds in zip(*rows, strict=True)}


def written(value):
    return "\u2013" if value is None else f"{float(f'{value:.4g}'):,g}"


@pytest.mark.parametrize("dark", [False, True])
def test_the_mouse_reads_the_raw_values_along_a_curve(browser, page, dark):
    browser.open(page, dark=dark)
    assert browser.run(SHOWN) == ""
    browser.point(READER, 0.5)
    step, values = next((s, v) for s, v in logged(page).items() if f"step {s:,}\n" in browser.run(SHOWN))
    assert abs(step - 50_000) < 5_000
    assert "  ".join(map(written, values)) in browser.run(SHOWN)
    for name in ("DSAC", "DSAC-M", "DSAC-V"):
        assert f"{name}\n" in browser.run(SHOWN)
    found = browser.run(f"{CONTRAST}('.readout:not([hidden]), .readout:not([hidden]) span')")
    assert min(found) >= 4.5
    assert len(found) == 13
    browser.point("h1", 0.5)
    assert browser.run(SHOWN) == ""
    assert browser.log == []
    assert len([u for u in browser.requests if not u.startswith("data:")]) == 1


def test_the_crosshair_stands_on_its_step(browser, page):
    browser.open(page)
    browser.point(READER, 0.9)
    cross, dot = browser.run(
        "['.cross', '.dot'].map(s => (b => b.x + b.width / 2)(document.querySelector('#learning ' + s)"
        ".getBoundingClientRect()))"
    )
    left, width = browser.run(f"(b => [b.x, b.width])(document.querySelector('{READER}').getBoundingClientRect())")
    assert cross == pytest.approx(dot, abs=1)
    assert cross == pytest.approx(left + 0.9 * width, abs=width / 30)
    drawn = browser.run(
        "[...document.querySelectorAll('#learning figure:first-child svg clipPath rect')].map(r => {"
        " const s = r.closest('svg'), k = s.getBoundingClientRect().width / s.viewBox.baseVal.width;"
        " return [s.getBoundingClientRect().x + k * r.x.baseVal.value, k * r.width.baseVal.value]; })[0]"
    )
    assert [left, width] == pytest.approx(drawn, abs=1)  # the panel of the drawing is where the reader is


def test_the_keyboard_walks_along_a_curve(browser, page):
    browser.open(page)
    steps = list(logged(page))
    browser.run(f"document.querySelector('{READER}').focus()")
    assert f"step {steps[-1]:,}\n" in browser.run(SHOWN)
    browser.press("ArrowLeft")
    assert f"step {steps[-2]:,}:" in browser.run(SAID)
    assert written(logged(page)[steps[-2]][0]) in browser.run(SAID)
    browser.press("Home")
    assert f"step {steps[0]:,}\n" in browser.run(SHOWN)
    browser.press("Escape")
    assert browser.run(SHOWN) == ""
    browser.press("Tab")
    assert browser.run("document.activeElement.textContent") == "SVG"
    assert browser.run(SHOWN) == ""


def test_a_finger_reads_a_curve_and_the_readout_stays_on_the_screen(browser, page):
    browser.open(page, width=390)
    browser.point(READER, 0.3, touch=True)
    assert browser.run(SHOWN).startswith("step ")
    left, right = browser.run(
        "(b => [b.left, b.right])(document.querySelector('#learning .readout').getBoundingClientRect())"
    )
    assert 0 <= left < right <= 390


def test_without_script_the_page_is_whole_and_promises_nothing(browser, page):
    plain = page.with_name("plain.html")
    plain.write_text(re.sub(r"<script>.*</script>", "", page.read_text(encoding="utf-8"), flags=re.S), encoding="utf-8")
    browser.open(plain)
    assert browser.run("document.querySelectorAll('script, .reader, .readout, thead button').length") == 0
    assert browser.run("document.querySelector('.with-script').getClientRects().length") == 0
    assert browser.run("document.querySelector('#learning figure svg').getBoundingClientRect().width") > 100
    assert browser.run("document.querySelector('#scores td').textContent.length") > 0
    assert browser.log == []


def test_on_paper_a_table_has_one_foot_and_nothing_to_press(browser, page):
    browser.open(page, media="print")
    assert browser.run("getComputedStyle(document.querySelector('tfoot')).display") == "table-row-group"
    assert browser.run("document.querySelector('.reader').getClientRects().length") == 0


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
def test_nothing_sticks_out_of_the_screen(browser, page, width):
    browser.open(page, width=width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.run("document.getElementById('show-all').click()")
    assert browser.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_light_and_dark(browser, page, dark):
    browser.open(page, dark=dark)
    for selector in (
        "p, li, h1, h2, h3, h4, td, td small, caption, dt, dd, a, summary, .badge, .range",
        "th:not(.again)",
    ):
        found = browser.run(f"{CONTRAST}({selector!r})")
        assert found
        assert min(found) >= 4.5, selector
    ink = browser.run("getComputedStyle(document.querySelector('.figure [role=img] > svg')).color")
    assert ink == browser.run("getComputedStyle(document.body).color")
    lines = browser.run(f"{CONTRAST.replace('.color', '.stroke')}('.legend svg path:first-child')")
    assert min(lines) >= 3, "lines of figures"


def test_a_screen_reader_finds_headings_labels_and_the_skip_link(browser, page):
    browser.open(page)
    assert browser.run("[...document.querySelectorAll('h1')].length") == 1
    assert browser.run("[...document.querySelectorAll('[role=img]')].every(e => e.ariaLabel.length > 20)")
    assert browser.run("[...document.querySelectorAll('img')].every(e => e.alt.length > 10)")
    assert browser.run(
        "[...document.querySelectorAll('table')].every(t => t.caption && t.querySelector('th[scope=row]'))"
    )
    assert browser.run(
        "[...document.querySelectorAll('section')]"
        ".every(s => document.getElementById(s.getAttribute('aria-labelledby')))"
    )
    ids = browser.run("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    browser.press("Tab")
    assert browser.run("document.activeElement.getAttribute('href')") == "#verdict"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0


def test_hostile_names_run_no_script(browser, tmp_path):
    plan = synthetic_study(
        tmp_path, points=5, labels=("</script><script>window.hit=1</script>", '"><img src=x onerror=window.hit=1>')
    )
    (tmp_path / "tasks" / f"{plan.names[0]}.json").write_text(
        '{"state": "failed", "error": "<svg onload=window.hit=1>", "steps": 100000}'
    )
    browser.open(write_report(tmp_path))
    assert browser.run("window.hit") is None
    assert browser.log == []


def test_a_video_beside_the_page_may_be_played(browser, tmp_path):
    synthetic_study(tmp_path, seeds=1, points=5)
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "fog.mp4").write_bytes(b"no video")
    page = write_report(tmp_path)
    browser.open(page)
    assert len([u for u in browser.requests if u.startswith("file:")]) == 1  # it waits until it is asked for
    browser.run("document.addEventListener('securitypolicyviolation', e => window.refused = e.blockedURI)")
    assert (
        browser.run("(v => { v.muted = true; return v.play().catch(e => e.name); })(document.querySelector('video'))")
        == "NotSupportedError"
    )
    assert browser.run("window.refused") is None
    assert page.parent.as_uri() + "/videos/fog.mp4" in browser.requests
