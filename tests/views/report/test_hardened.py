"""Hardened agents on the page: no sentence, table or figure shows a score under a shift without what the agent met."""

import csv
import json
import re

import numpy as np
import pytest
from helpers.browser import Browser, find_chromium
from helpers.quick_pictures import quick_pictures  # noqa: F401 - used by every test here
from helpers.studies import synthetic_study

from dsacc.analysis.names import display_name
from dsacc.analysis.results import collect
from dsacc.analysis.rows import Row
from dsacc.analysis.summary import Summary
from dsacc.analysis.tables import summary_table
from dsacc.play.store import RowStore
from dsacc.views.report import write_report
from dsacc.views.report.series import check_curves
from dsacc.views.report.study import read_study
from dsacc.views.report.verdict import claims, disagreements, headlines, kept, limits

SHIFTS = ("id", "snow", "rain", "fog")
STUDENT, NEAR, FOG = "dsac-m, hardened", "dsac-m, hardened (near)", "dsac-m, hardened (fog light)"
TWIN = "dsac, hardened"
SCORES = {  # in Breakout a random player has 1.7; above that DSAC-M has 14.4 clean
    "dsac": (13.22, 3.14, 3.14, 3.14),
    "dsac-m": (16.1, 4.58, 4.58, 4.58),
    TWIN: (16.1, 14.66, 14.66, 14.66),
    STUDENT: (14.66, 8.9, 11.78, 13.22),
    NEAR: (16.1, 13.22, 14.66, 16.1),
    FOG: (16.1, 4.58, 6.02, 16.1),
}
AGENTS = [agent for agent in SCORES if agent != TWIN]
MET = {TWIN: ("unseen",) * 3, STUDENT: ("unseen",) * 3, NEAR: ("near",) * 3, FOG: ("unseen", "unseen", "trained on")}


def rows_of(*agents, seeds=3, policies=("greedy",), severities=("paper",)):
    source, rows = np.random.default_rng(0), []
    for policy in policies:
        for agent in agents:
            for seed in range(seeds):
                words = (None, *MET.get(agent, (None,) * 3))
                for shift, score, word in zip(SHIFTS, SCORES[agent], words, strict=True):
                    for level in (None,) if shift == "id" else severities:
                        noise = source.normal(0, 0.5, 10)
                        returns = (score + noise - noise.mean()).tolist()
                        how = (shift, level, None if level is None else "independent", policy)
                        row = Row("Breakout", agent, seed, 0, 100_000, *how, None, word, returns, [10] * 10)
                        rows.append(row.to_json())
    return rows


def judged(rows, baseline=None):
    results = collect(rows)[0][0]
    summary = Summary(results, baseline)
    return results, summary, claims(results, summary)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    rows = rows_of(*AGENTS, policies=("greedy", "sampled"))
    (folder / "results.json").write_text(json.dumps(rows))
    return write_report(folder)


# --- sentences ---


def test_a_hardened_agent_is_compared_with_the_baseline_hardened_alike():
    """Alone it would be compared with DSAC as it was, and hardening would count as a gain of the constraint."""
    _, alone, made = judged(rows_of("dsac", "dsac-m", STUDENT))
    assert (alone.against(STUDENT), alone.opponents()) == ("dsac", "dsac")
    assert {c.condition: c.word for c in made[STUDENT]}["fog"] == "hint: better"

    results, summary, made = judged(rows_of("dsac", "dsac-m", TWIN, STUDENT, NEAR))
    assert {agent: summary.against(agent) for agent in results.agents} == {
        "dsac": "dsac", TWIN: "dsac", "dsac-m": "dsac", STUDENT: TWIN, NEAR: "dsac",
    }  # fmt: skip
    assert {c.against for c in made[STUDENT]} == {TWIN}
    assert {c.condition: c.word for c in made[STUDENT]}["fog"] == "hint: worse"
    assert "a run of DSAC-M, hardened beats a run of DSAC, hardened with probability" in made[STUDENT][3].sentence
    said = headlines(made)
    assert any(line.startswith("DSAC-M, hardened against DSAC, hardened: ") for line in said)
    assert any(line.startswith("DSAC, hardened against DSAC: ") for line in said)
    assert summary.opponents(display_name) == "DSAC (other hardened agents: DSAC, hardened)"
    (note,) = [note for note in summary_table(results, summary).notes if note.startswith("IQM")]
    assert "a run beats a run of dsac (other hardened agents: dsac, hardened)" in note


def test_a_baseline_that_is_hardened_itself_is_what_all_are_compared_with():
    _, summary, _ = judged(rows_of("dsac", "dsac-m", TWIN, STUDENT), baseline=TWIN)
    assert {agent: summary.against(agent) for agent in ("dsac", "dsac-m", STUDENT)} == dict.fromkeys(
        ("dsac", "dsac-m", STUDENT), TWIN
    )


def test_a_headline_groups_conditions_by_what_the_agent_met():
    _, _, made = judged(rows_of(*AGENTS))
    said = dict(zip(made, headlines(made), strict=True))
    better = "against DSAC: a hint that it is better"
    assert said["dsac-m"] == f"DSAC-M {better} (clean, snow, rain and fog; all together)."
    assert said[STUDENT] == f"DSAC-M, hardened {better} (clean; unseen: snow, rain and fog; all together)."
    where = "clean; trained on: fog; unseen: snow and rain; all together"
    assert said[FOG] == f"DSAC-M, hardened (fog light) {better} ({where})."


def test_what_is_kept_is_said_with_the_word_and_of_whose_score_it_is():
    results, summary, _ = judged(rows_of(*AGENTS))
    of = "keeps, of what DSAC-M scored above random before hardening:"
    assert kept(results, summary) == [
        f"DSAC-M, hardened {of} 90 % clean; 50 % in snow, 70 % in rain and 80 % in fog (unseen).",
        f"DSAC-M, hardened (fog light) {of} 100 % clean; 100 % in fog (trained on); "
        "20 % in snow and 30 % in rain (unseen).",
        f"DSAC-M, hardened (near) {of} 100 % clean; 80 % in snow, 90 % in rain and 100 % in fog (near).",
    ]
    results, summary, _ = judged(rows_of("dsac", STUDENT))
    (alone,) = kept(results, summary)
    assert alone.startswith("DSAC-M, hardened keeps, of its own clean score above random: 56 % in snow, ")
    assert kept(*judged(rows_of("dsac", "dsac-m"))[:2]) == []


def test_of_many_shares_the_lowest_and_the_highest_are_said():
    rows = rows_of("dsac-m", STUDENT, severities=(1, 3))
    assert kept(*judged(rows)[:2]) == [
        "DSAC-M, hardened keeps, of what DSAC-M scored above random before hardening: 90 % clean; "
        "from 50 % in snow 1 to 80 % in fog 3 (unseen)."
    ]


def test_without_a_scale_the_words_are_said_alone():
    rows = [{**row, "env": "CartPole-v1"} for row in rows_of("dsac-m", FOG)]
    assert kept(*judged(rows)[:2]) == ["DSAC-M, hardened (fog light): fog trained on; snow and rain unseen."]


def test_every_comparison_under_a_shift_ends_with_the_word_of_both_sides():
    _, _, made = judged(rows_of(*AGENTS))
    for agent, found in made.items():
        for claim, word in zip(found, ("", *MET.get(agent, ("",) * 3)), strict=False):
            assert claim.exposure == word
            if word:
                assert claim.sentence.endswith(f"hardened{agent[16:]}: {claim.condition} {word}.")
    assert made[FOG][-1].exposure == "trained on, unseen"
    assert made[FOG][-1].sentence.endswith("For DSAC-M, hardened (fog light): fog trained on; snow and rain unseen.")
    _, _, made = judged(rows_of("dsac-m", FOG), baseline=FOG)
    assert made["dsac-m"][3].sentence.endswith("For DSAC-M, hardened (fog light): fog trained on.")


def test_what_was_trained_on_is_among_the_limits():
    results, summary, _ = judged(rows_of(*AGENTS))
    (said,) = (note for note in limits(results, summary, [], False) if "hardened" in note)
    about = "its scores there say nothing about shifts that it has not met"
    assert said == f"DSAC-M, hardened (fog light) was trained on fog: {about}."


def test_ways_of_acting_that_disagree_are_named_with_the_word():
    worse = [{**row, "policy": "sampled", "returns": [2.0] * 10} for row in rows_of(STUDENT)]
    both = {
        r.policy: claims(r, Summary(r))
        for r in collect(rows_of("dsac", STUDENT) + rows_of("dsac", policies=("sampled",)) + worse)[0]
    }
    assert any(note.startswith("DSAC-M, hardened, snow (unseen): ") for note in disagreements(both))


# --- the page and the files beside it ---


def lines_of(page, name):
    with open(page.parent / "report_files" / "tables" / f"{name}.csv") as file:
        return list(csv.DictReader(file))


def names_of(html, section):
    """The second name of each line of the first table in a section: its text and the small text beneath."""
    part = re.search(rf'<section id="{section}".*?</section>', html, re.S)[0]
    body = re.search(r"<tbody>.*?</tbody>", part, re.S)[0]
    rows = [re.findall(r'<th scope="row"[^>]*>(.*?)(?:<small>(.*?)</small>)?</th>', row) for row in body.split("</tr>")]
    return [(row[0][0], *row[1]) for row in rows if row]


def test_every_line_of_the_score_table_has_the_word_beneath_the_name(page):
    found = names_of(page.read_text(encoding="utf-8"), "scores")
    assert len(found) == 4 * 5 * 2
    for condition, agent, below in found:
        met = MET.get(agent.replace("DSAC-M", "dsac-m"), ("",) * 3)
        word = dict(zip(("clean", *SHIFTS[1:]), ("", *met), strict=True))[condition]
        assert below in {f"{policy}, {word}".removesuffix(", ") for policy in ("greedy", "sampled")}


def test_every_comparison_on_the_page_has_the_word_beside_its_condition(page):
    part = re.search(r'<table class="claims">.*?</table>', page.read_text(encoding="utf-8"), re.S)[0]
    assert part.count("<small>trained on</small>") == 1
    assert part.count("<small>trained on, unseen</small>") == 1  # all together
    assert (part.count("<small>unseen</small>"), part.count("<small>near</small>")) == (2 + 3 + 1, 3 + 1)


def test_tables_as_files_have_a_column_of_words(page):
    words = {(x["condition"], x["agent"]): x["exposure"] for x in lines_of(page, "scores")}
    assert words["fog", "DSAC-M, hardened (fog light) (sampled)"] == "trained on"
    assert words["Overall", "DSAC-M, hardened (fog light) (greedy)"] == "trained on, unseen"
    assert (words["fog", "DSAC-M (greedy)"], words["reference", "random"]) == ("", "")
    verdict = {(x["actions"], x["agent"], x["condition"]): x for x in lines_of(page, "verdict")}
    assert verdict["greedy", "DSAC-M, hardened (near)", "rain"]["exposure"] == "near"
    assert "fog trained on" in verdict["sampled", "DSAC-M, hardened (fog light)", "fog"]["in words"]
    beside = {(x["agent"], x["shift"], x["policy"]): x["exposure"] for x in lines_of(page, "beside_paper")}
    assert beside[FOG, "fog", "sampled"] == "trained on"
    for ending in ("md", "tex"):
        for name in ("scores", "verdict", "results"):
            assert "trained on" in (page.parent / "report_files" / "tables" / f"{name}.{ending}").read_text()


def test_figures_say_it_on_the_page_and_in_their_files(page):
    html = page.read_text(encoding="utf-8")
    whole = "DSAC-M, hardened (fog light): fog trained on; snow and rain unseen."
    figures = re.findall(r"<figure class=\"figure.*?</figure>", html, re.S)
    for title in ("Does a run beat a run of DSAC? All conditions together", "What each shift costs"):
        some = [x for x in figures if f"<figcaption>{title}</figcaption>" in x]
        assert len(some) == 2  # greedy and sampled
        for figure in some:
            assert whole in re.search(r'<p class="met">(.*?)</p>', figure, re.S)[1]
            assert whole in re.search(r'aria-label="(.*?)"', figure, re.S)[1]
    drawn = page.parent / "report_files" / "figures"
    for name in ("improvement-p0", "gap-p1"):
        said = " ".join(re.findall(r"<text[^>]*>(.*?)</text>", (drawn / f"{name}.svg").read_text()))
        assert whole in said
    profiles = [(drawn / f"profile-p0-{i}.svg").read_text() for i in range(4)]
    assert "hardened: unseen" not in profiles[0]  # clean
    assert "DSAC-M, hardened (fog light): trained" in profiles[3].replace("\n", " ")


def test_curves_over_severity_say_it(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(rows_of("dsac-m", FOG, severities=(1, 3, 5))))
    page = write_report(tmp_path)
    files = page.parent / "report_files" / "figures"
    notes = [
        re.findall(r">(DSAC-M, hardened \(fog light\): .*?)</text>", (files / f"severity-p0-{i}.svg").read_text())
        for i in range(3)
    ]
    words = ["unseen", "unseen", "trained on"]
    assert notes == [[f"DSAC-M, hardened (fog light): {word}."] for word in words]


def test_agents_that_were_not_hardened_have_a_page_without_these_words(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(rows_of("dsac", "dsac-m")))
    html = write_report(tmp_path).read_text(encoding="utf-8")
    text = re.sub(r"<(style|script)\b.*?</\1>", "", html, flags=re.S).replace('class="unseen"', "")
    for word in ("unseen", "hardened", "trained on", "exposure"):
        assert word not in text


# --- folders ---


def saved(folder, rows, **change):
    store = RowStore(folder, "synthetic student")
    for row in rows:
        store.save(Row.from_json({**row, **change}))


def test_a_folder_with_tests_before_and_after_hardening_keeps_them_apart(tmp_path):
    plan = synthetic_study(tmp_path, agents=("dsac-m",), seeds=1, points=5, policy=("greedy",), labels=("", "odd"))
    for run in plan.runs:
        saved(tmp_path / "runs" / run.name, rows_of(STUDENT, seeds=1))
    study = read_study(tmp_path)
    names = ["dsac-m", "dsac-m, hardened", "dsac-m, odd", "dsac-m, odd, hardened"]
    assert study.agents == names
    assert [sum(row.agent == name for row in study.rows) for name in names] == [4] * 4
    assert {row.exposure for row in study.rows if "hardened" in row.agent} == {None, "unseen"}
    assert [len({row.agent for row in run.checks}) for run in study.runs] == [1, 1]
    again = read_study(tmp_path / "runs")  # without a plan the settings tell the variants apart
    settings = [f"dsac-m, noise_std {run.config.noise_std}" for run in sorted(plan.runs, key=lambda run: run.name)]
    assert again.agents == [name for own in settings for name in (own, f"{own}, hardened")]


def test_a_folder_that_holds_only_a_hardened_agent_is_named_by_it(tmp_path):
    plan = synthetic_study(tmp_path, agents=("dsac-m",), seeds=1, points=5, policy=("greedy",))
    folder = tmp_path / "runs" / plan.names[0]
    for path in (folder / "evaluations").glob("*.json"):
        path.unlink()
    saved(folder, rows_of(FOG, seeds=1))
    study = read_study(tmp_path)
    assert study.agents == [study.runs[0].agent] == [FOG]


def test_tests_during_training_under_a_shift_say_what_the_agent_met(tmp_path):
    """An agent that is trained under augmentations has a word too, and is not called hardened."""
    plan = synthetic_study(tmp_path, agents=("dsac-m",), seeds=1, points=5, policy=("greedy",), shifts=("id",))
    snow = next(row for row in rows_of(STUDENT, seeds=1) if row["shift"] == "snow")
    for step in (50_000, 100_000):
        saved(tmp_path / "runs" / plan.names[0], [snow], agent="dsac-m", step=step, exposure="near")
    page = write_report(tmp_path)
    assert check_curves(read_study(tmp_path).runs, ["dsac-m"], "Breakout", "snow paper independent", "greedy")
    (figure,) = (
        x
        for x in re.findall(r"<figure class=\"figure.*?</figure>", page.read_text(encoding="utf-8"), re.S)
        if "tests with greedy actions, snow" in x
    )
    assert '<p class="met">DSAC-M: near.</p>' in figure
    assert {x["exposure"] for x in lines_of(page, "tests_on_the_way")} == {"", "near"}


# --- in a browser ---


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium on PATH")
def test_on_a_narrow_screen_the_words_stay_beside_the_figures_and_nothing_overlaps(page, tmp_path):
    browser = Browser(find_chromium() or "", tmp_path)
    try:
        for width in (320, 375, 1280):
            browser.open(page, width=width)
            browser.run("document.getElementById('show-all').click()")
            assert browser.run("document.documentElement.scrollWidth") <= width
            overlaps = browser.run(
                "[...document.querySelectorAll('table.grid tbody tr')].filter(row => {"
                " const range = document.createRange(); range.selectNodeContents(row.cells[1]);"
                " return range.getBoundingClientRect().right > row.cells[2].getBoundingClientRect().left + 1; }).length"
            )
            assert overlaps == 0
        browser.open(page, width=375)
        table = "#scores .by-policy .scroll"
        browser.run(f"(e => e.scrollLeft = e.scrollWidth)(document.querySelector('{table}'))")
        places = browser.run(
            f"[...document.querySelector('{table}').querySelectorAll('tbody th small')]"
            ".map(e => e.getBoundingClientRect()).map(b => [b.left, b.right])"
        )
        assert len(places) > 10
        assert all(0 <= left < right <= 375 for left, right in places)
        browser.open(page, media="print")
        assert browser.run("[...document.querySelectorAll('.met')].every(e => e.getClientRects().length > 0)")
        assert browser.log == []
    finally:
        browser.close()
