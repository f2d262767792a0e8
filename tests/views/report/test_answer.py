"""The first screen: its sentence says what the table says, and it fits on a screen."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from helpers.browser import Browser, find_chromium
from helpers.quick_pictures import quick_pictures  # noqa: F401 - used by every test here

from dsacc.analysis.results import collect
from dsacc.analysis.rows import Row
from dsacc.analysis.statistics import Estimate
from dsacc.analysis.summary import Summary
from dsacc.views.report import write_report
from dsacc.views.report.answer import ROWS, answer, detail, how_sure, repeats, sentence
from dsacc.views.report.drawing import COLOURS, SPOTS, styles_of
from dsacc.views.report.verdict import TEXTS, WORDS, claims, headlines, judge

ESTIMATES = {
    "better": Estimate(0.8, 0.6, 0.9, 10),
    "worse": Estimate(0.2, 0.1, 0.4, 10),
    "hint: better": Estimate(0.8, 0.6, 0.9, 5),
    "hint: worse": Estimate(0.2, 0.1, 0.4, 5),
    "not decided": Estimate(0.5, 0.2, 0.9, 5),
}


def claimed(agent, **words):
    """Claims of an agent with the given verdicts, by condition; `together` is the one over all conditions."""
    names = {"together": WORDS[None]}
    return [judge(agent, "dsac", names.get(c, c), ESTIMATES[word], 3, True) for c, word in words.items()]


def rows_of(agents, seeds, shifts=("id", "snow"), env="CartPole-v1", spread=1.0):
    source, rows = np.random.default_rng(0), []
    for i, agent in enumerate(agents):
        for seed in range(seeds):
            for shift in shifts:
                how = (shift, *((None, None) if shift == "id" else ("paper", "independent")), "greedy")
                returns = [float(i + spread * source.normal())] * 2
                rows.append(Row(env, agent, seed, 0, 1_000, *how, None, None, returns, [1, 1]).to_json())
    return rows


def text_of(page):
    html = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


# --- sentences ---


def test_one_agent_is_answered_with_its_probability():
    made = {"dsac-m": claimed("dsac-m", clean="hint: worse", snow="not decided", together="not decided")}
    assert sentence(made, "DSAC") == (
        "Not decided whether DSAC-M is better or worse than DSAC, over all conditions together: "
        "a run of DSAC-M beats a run of DSAC with probability 0.50 (0.20 to 0.90), over 3 games."
    )
    assert detail(made) == "One condition at a time: a hint that it is worse (clean); not decided (snow)."


def test_several_agents_are_counted_by_their_verdict_over_all_conditions():
    kinds = ["hint: worse"] * 3 + ["not decided"] * 2
    made = {f"x{i}": claimed(f"x{i}", clean="not decided", rain=k, together=k) for i, k in enumerate(kinds)}
    assert sentence(made, "DSAC") == (
        "No agent is shown to be better than DSAC, over all conditions together: "
        "not decided for x3 and x4; a hint that 3 of 5 agents are worse."
    )
    assert detail(made) == (
        "One agent and one condition at a time, 10 comparisons: “hint: worse” in 3 (rain), “not decided” in 7."
    )
    made["x4"] = claimed("x4", clean="better", rain="better", together="better")
    assert sentence(made, "DSAC").startswith("Against DSAC, over all conditions together: x4 is better; not decided")


def test_no_sentence_is_without_a_verdict_that_the_table_has():
    """Also not the verdict over all conditions together, whose badge stands in the table."""
    made = {
        "x": claimed("x", clean="not decided", snow="not decided", together="hint: worse"),
        "y": claimed("y", clean="hint: better", snow="not decided", together="not decided"),
    }
    for said, found in zip(headlines(made), made.values(), strict=True):
        for word in {c.word for c in found}:
            part = next(p for p in re.split(r"; (?=not|a hint)", said.partition(": ")[2]) if p.startswith(TEXTS[word]))
            assert all(c.condition in part for c in found if c.word == word)
    counts = Counter(c.word for found in made.values() for c in found if c.condition != WORDS[None])
    assert all(f"“{word}” in {n}" in detail(made) for word, n in counts.items())


@pytest.mark.parametrize(
    ("counts", "said"),
    [([1, 1], "One seed each, so"), ([5, 5], "5 seeds each"), ([3, 5], "3 to 5 seeds each"), ([10], "10 seeds each")],
)
def test_how_sure_it_is_names_the_seeds(counts, said):
    assert how_sure(counts, intervals=max(counts) > 1).startswith(said)
    assert ("only as a hint" in how_sure(counts, True)) == (1 < max(counts) < 10)


def test_the_paper_is_named_with_what_is_repeated_of_it():
    assert "in 1 of its 9 games" in repeats(["dsac", "dsac-m, hardened"], ["Breakout", "CartPole-v1"])
    assert "DSAC and DSAC-M" in repeats(["dsac", "dsac-m, hardened"], ["Breakout"])
    assert "not among its games" in repeats(["dsac-m, no noise"], ["CartPole-v1"])
    assert repeats(["random", "sb3:PPO"], ["Breakout"]) == ""


# --- figures ---


def test_every_row_of_the_figure_has_its_name_and_its_verdict():
    agents = [f"dsac-m, a variant with a name of some length, {i}" for i in range(6)]
    results = collect(rows_of(["dsac", *agents], 3, spread=2.0))[0][0]
    summary = Summary(results)
    made = claims(results, summary)
    found = answer(results, summary, made, styles_of(results.agents), "p0").figure
    assert found is not None
    rows = re.findall(r'<span class="who">(.*?)</span>.*?class="badge [^"]*">(.*?)</span>', found.inline)
    assert dict(rows) == {
        c.agent.replace("dsac-m", "DSAC-M"): c.word for made_of in made.values() for c in made_of[-1:]
    }
    assert len({word for _, word in rows}) > 1, "the test needs more than one verdict"
    values = [float(x) for x in re.findall(r'class="in-figures"><span>([\d.]+)', found.inline)]
    assert values == sorted(values, reverse=True)


def test_of_many_agents_a_few_have_a_colour_and_no_two_look_alike():
    agents = [f"x{i}" for i in range(14)]
    looks = styles_of(agents, ["x9", "x3"])
    assert [a for a in agents if looks[a].spot != SPOTS] == ["x0", "x1", "x3", "x9"]
    assert (looks["x9"].spot, looks["x3"].spot) == (0, 1)
    assert len({(str(s.line["linestyle"]), s.line["marker"]) for s in looks.values()}) == 14
    assert len({s.colour for s in styles_of(agents[: len(COLOURS)]).values()}) == len(COLOURS)


# --- the page ---

OVERLAPS = """[...document.querySelectorAll('.shown .strip:not(.axis)')].filter(row => {
  const text = document.createRange();
  text.selectNodeContents(row.querySelector('.who'));
  const beside = row.querySelector(innerWidth < 700 ? '.in-figures' : '.track').getBoundingClientRect();
  return [...text.getClientRects()].some(b => b.right > beside.left); }).length"""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    names = [f"dsac-m, noise in weights, tempered, {i}" for i in range(ROWS)]
    (folder / "results.json").write_text(json.dumps(rows_of(["dsac", *names], 3, shifts=("id",), spread=4.0)))
    return write_report(folder, alone=True)


def test_one_seed_is_spoken_of_once(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(rows_of(["dsac", "dsac-m"], 1, env="dsacc/Catch-v0")))
    words = text_of(write_report(tmp_path, alone=True))
    assert len(re.findall(r"(?i)\bone seed\b(?!, not between)", words)) == 1  # beside what ± is
    assert "Dexter Neo and Tsuhan Chen" in words
    assert "DSAC-C: Robust Discrete Soft-Actor Critic for Distribution Shift Scenarios" in words


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium on PATH")
def test_the_first_screen_has_the_answer_its_figure_and_how_sure_it_is(many, tmp_path):
    browser = Browser(find_chromium() or "", tmp_path)
    try:
        for width, height in ((1400, 900), (400, 800)):
            browser.open(many, width=width, height=height)
            for part in (".answer", ".sure", ".shown .strips"):
                bottom = browser.run(f"document.querySelector('{part}').getBoundingClientRect().bottom")
                assert 0 < bottom <= height - 30, (width, part)  # the name of a study may take one line more
            assert browser.run("document.documentElement.scrollWidth") <= width
            under = browser.run(OVERLAPS)
            assert under == 0, "a name reaches beneath the figures beside it"
            right = browser.run("document.querySelector('.shown').getBoundingClientRect().right")
            assert right > 0.85 * width, "the right half is used"
    finally:
        browser.close()
