"""Hardened agents in tables: every score under a shift has its word, and what is kept is measured before hardening."""

import csv
import io
import re

import pytest
from rich.console import Console

from dsacc.analysis.exposure import NOTE, WORDS, exposure_of, in_words, phrase
from dsacc.analysis.formats import render
from dsacc.analysis.names import display_name, in_agent_order, split_name, with_label
from dsacc.analysis.results import collect
from dsacc.analysis.rows import Condition, Row
from dsacc.analysis.summary import Summary
from dsacc.analysis.tables import score_table, severity_table, summary_table
from dsacc.system.types import EXPOSURES

STUDENT, NEAR, FOREIGN = "dsac-m, hardened", "dsac-m, hardened (near)", "sb3:DQN, hardened (fog light)"
SHIFTS = ("id", "snow", "rain", "fog")
SNOW = Condition("snow", "paper", "independent")
SCORES = {  # clean, snow, rain, fog; in Breakout a random player has 1.7 and a human 30.5
    "dsac": (16.1, 3.14, 3.14, 3.14),
    "dsac-m": (16.1, 4.58, 4.58, 4.58),
    STUDENT: (14.66, 8.9, 11.78, 13.22),
    NEAR: (16.1, 13.22, 14.66, 16.1),
}
MET = {STUDENT: ["unseen"] * 3, NEAR: ["near"] * 3, FOREIGN: ["unseen", "unseen", "trained on"]}


def row(agent, shift, score, exposure=None, seed=0, **other):
    clean = shift == "id"
    about = {"env": "Breakout", "agent": agent, "train_seed": seed, "eval_seed": 0, "step": 100_000, "shift": shift}
    about |= {"severity": None if clean else "paper", "mode": None if clean else "independent", "policy": "greedy"}
    about |= {"exposure": exposure, "returns": [float(score)], "lengths": [10]} | other
    return {key: value for key, value in about.items() if key != "exposure" or value is not None}


def grid(agents=tuple(SCORES), seeds=2, policies=("greedy", "sampled")):
    return [
        row(agent, shift, score, word, seed, policy=policy)
        for policy in policies
        for agent in agents
        for seed in range(seeds)
        for shift, score, word in zip(SHIFTS, SCORES[agent], [None, *MET.get(agent, [None] * 3)], strict=True)
    ]


def foreign(**other):
    scores = zip(SHIFTS, (16.1, 3.14, 3.14, 16.1), [None, *MET[FOREIGN]], strict=True)
    return [row(FOREIGN, shift, score, word, None, **other) for shift, score, word in scores]


def one(rows):
    (results,), _ = collect(rows)
    return results, Summary(results)


def printed(rows, width=120):
    out = io.StringIO()
    render(rows, console=Console(file=out, width=width))
    return out.getvalue()


# --- names ---


def test_a_hardened_agent_stands_right_after_its_teacher_also_where_that_is_absent():
    agents = ["random", NEAR, "sb3:DQN, hardened", "dsac-v", STUDENT, "dsac", "sb3:DQN", "dsac-m"]
    assert in_agent_order(agents) == [
        "dsac", "dsac-m", STUDENT, NEAR, "dsac-v", "random", "sb3:DQN", "sb3:DQN, hardened"
    ]  # fmt: skip
    assert in_agent_order(["dsac-v", STUDENT, "dsac"]) == ["dsac", STUDENT, "dsac-v"]


def test_a_name_tells_the_agent_before_hardening():
    assert split_name(FOREIGN) == ("sb3:DQN", ", hardened (fog light)")
    assert split_name("dsac-m, hardened, hardened (near)") == ("dsac-m, hardened", ", hardened (near)")
    for name in ("dsac-m", "hardened", "dsac-m, hardened twice", "blind dsac-m, hardened"):
        assert split_name(name) == (name, "")
    assert with_label(NEAR, "more noise") == "dsac-m, more noise, hardened (near)"
    assert (display_name(NEAR), display_name(FOREIGN)) == ("DSAC-M, hardened (near)", FOREIGN)


# --- words ---


def test_the_clean_screen_and_agents_without_augmentations_have_no_word():
    assert exposure_of(Row.from_json(row("dsac-m", "fog", 1))) is None
    assert exposure_of(Row.from_json(row(STUDENT, "id", 1))) is None
    assert exposure_of(Row.from_json(row(STUDENT, "fog", 1, "trained on"))) == "trained on"
    assert exposure_of(Row.from_json(row("dsac-m", "fog", 1, "near"))) == "near"  # augmented during training
    assert set(WORDS) == {*EXPOSURES, "not known"}


def test_a_hardened_agent_whose_rows_have_no_word_is_not_taken_for_unseen():
    assert exposure_of(Row.from_json(row(STUDENT, "fog", 1))) == "not known"
    assert "not known" in render([row(STUDENT, "fog", 1)], "markdown")


def test_words_that_differ_are_all_named_what_weighs_most_first():
    assert in_words(["unseen", "trained on", "", "unseen"]) == "trained on, unseen"
    assert phrase({"id": "", "snow": "unseen", "blur": "near", "rain": "unseen"}) == "blur near; snow and rain unseen"
    results, _ = one([row(STUDENT, "fog", 1, "unseen"), row(STUDENT, "fog", 1, "trained on", seed=1)])
    assert results.exposure(results.conditions, STUDENT) == "trained on, unseen"


def test_a_row_keeps_its_word_and_refuses_another():
    content = row(STUDENT, "fog", 1, "near")
    assert Row.from_json(content).to_json() == content
    with pytest.raises(ValueError, match="'seen' as 'exposure'"):
        Row.from_json({**content, "exposure": "seen"})


# --- tables ---


def test_every_score_of_a_hardened_agent_under_a_shift_has_its_word():
    results, summary = one(grid(policies=("greedy",)) + foreign())
    for table in (score_table(results, summary), summary_table(results, summary)):
        assert (table.header[2], table.names) == ("exposure", 3)
        words = {(line[0].text, line[1].text): line[2].text for line in table.lines}
        for agent, met in MET.items():
            assert [words[shift, agent] for shift in SHIFTS] == ["", *met]
        assert {words[shift, a] for shift in SHIFTS for a in ("dsac", "dsac-m")} == {""}
    scores = {(line[0].text, line[1].text): line[2].text for line in score_table(results, summary).lines}
    assert (scores["Overall", NEAR], scores["Overall", FOREIGN]) == ("near", "trained on, unseen")
    pooled = {(line[0].text, line[1].text): line[2].text for line in summary_table(results, summary).lines}
    assert pooled["all", FOREIGN] == "trained on, unseen"


def test_a_curve_over_severity_has_its_word():
    rows = [row(STUDENT, "id", 16.1), *(row(STUDENT, "fog", 9, "trained on", severity=s) for s in (1, 3, 5))]
    table = severity_table(*one(rows))
    assert [cell.text for cell in table.lines[0][:3]] == ["fog", STUDENT, "trained on"]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_no_part_of_a_printed_table_lacks_the_words(width):
    text = printed(grid(policies=("greedy",)) + foreign(), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    tables = re.findall(r"┏.*?└", text, re.S)
    assert len(tables) >= 2
    for table in tables:
        letters = re.sub(r"[\s│]", "", table)
        for word in ("unseen", "near", "trained"):
            assert word in letters
    assert " ".join(text.split()).count(NOTE) == 1


def test_without_hardened_agents_there_is_no_such_column_and_no_note():
    rows = grid(("dsac", "dsac-m"))
    for form in ("markdown", "latex"):
        assert "exposure" not in render(rows, form)
    assert "exposure" not in printed(rows)
    lines = list(csv.DictReader(io.StringIO(render(rows, "csv"))))
    assert {line["exposure"] for line in lines} == {""}


def test_the_csv_has_the_word_and_whose_clean_score_retention_is_a_share_of():
    lines = list(csv.DictReader(io.StringIO(render(grid() + foreign(), "csv"))))
    assert len(lines) == 2 * 4 * 4 + 4
    found = {(x["policy"], x["agent"], x["shift"]): x for x in lines}
    assert [found["sampled", NEAR, shift]["exposure"] for shift in SHIFTS] == ["", "near", "near", "near"]
    fog = found["greedy", FOREIGN, "fog"]
    assert (fog["exposure"], fog["retention_of"]) == ("trained on", FOREIGN)
    snow = found["greedy", STUDENT, "snow"]
    assert (float(snow["retention"]), snow["retention_of"]) == (pytest.approx(0.5), "dsac-m")
    assert (found["greedy", "dsac", "snow"]["retention_of"], found["greedy", "dsac", "id"]["retention_of"]) == (
        "dsac",
        "",
    )


def test_markdown_and_latex_have_the_word_in_the_line_of_the_score():
    rows = grid(policies=("greedy",)) + foreign()
    assert re.search(r"\| sb3:DQN, hardened \(fog light\) \| trained on \| \*\*16\.10", render(rows, "markdown"))
    latex = render(rows, "latex")
    assert r"sb3:DQN, hardened (fog light) & trained on & \textbf{16.10}" in latex
    assert latex.count(r"\begin{tabular}{lllr") == latex.count(r"\begin{tabular}") >= 2


# --- what is kept ---


def test_what_a_hardened_agent_keeps_is_a_share_of_its_teachers_clean_score():
    """Above random: the teacher has 14.4 clean, the student 12.96 clean, then 7.2, 10.08 and 11.52."""
    _, summary = one(grid(policies=("greedy",)))
    kept = {(x.condition.shift, x.agent): x.retention for x in summary.lines if x.condition}
    shares = [kept[shift, STUDENT].value for shift in SHIFTS]
    assert shares == pytest.approx([0.9, 0.5, 0.7, 0.8])
    assert kept["snow", "dsac-m"].value == pytest.approx(0.2)
    assert kept["id", "dsac-m"] is None
    assert summary.kept_of(STUDENT) == summary.kept_of("dsac-m") == "dsac-m"
    gaps = {(x.condition.shift, x.agent): x.gap for x in summary.lines if x.condition}
    assert gaps["snow", STUDENT].value == pytest.approx((14.66 - 8.9) / 28.8)  # its own clean score


@pytest.mark.parametrize("change", [{"agent": "dsac"}, {"train_seed": 7}, {"env": "Alien"}, {"shift": "haze"}])
def test_without_its_teacher_in_the_same_game_and_seed_its_own_clean_score_counts(change):
    teacher = {**row("dsac-m", "id", 16.1), **change}
    results, summary = one([teacher, *grid((STUDENT,), 1, ("greedy",))])
    assert summary.kept_of(STUDENT) == STUDENT
    assert summary.retention(STUDENT, SNOW).value == pytest.approx(7.2 / 12.96)
    notes = " ".join(summary_table(results, summary).notes)
    assert f"kept, for {STUDENT}: % of its own clean score above random, because the agent before" in notes


def test_only_seeds_of_both_count():
    rows = [row("dsac-m", "id", 16.1, seed=0), row("dsac-m", "id", 500, seed=1)]
    rows += [row(STUDENT, "snow", 8.9, "unseen", seed=0), row(STUDENT, "snow", 500, "unseen", seed=2)]
    _, summary = one(rows)
    assert summary.retention(STUDENT, SNOW).value == pytest.approx(0.5)


def test_a_note_says_whose_clean_score_it_is():
    results, summary = one(grid(policies=("greedy",)) + foreign())
    notes = summary_table(results, summary).notes
    assert f"kept, for {STUDENT}; {NEAR}: % of what the agent before hardening scored above random, clean." in notes
    assert any(note.startswith(f"kept, for {FOREIGN}: % of its own clean score") for note in notes)
    assert not any("hardening" in note for note in summary_table(*one(grid(("dsac", "dsac-m"), 2, ("greedy",)))).notes)


def test_a_teacher_without_skill_leaves_nothing_to_keep():
    rows = [row("dsac-m", "id", 1.0, seed=s) for s in (0, 1)]
    rows += [row(STUDENT, s, 20.0, None if s == "id" else "unseen", seed=i) for s in ("id", "snow") for i in (0, 1)]
    results, summary = one(rows)
    line = next(x for x in summary_table(results, summary).lines if (x[0].text, x[1].text) == ("snow", STUDENT))
    assert line[-1].text == "no skill"


def test_a_baseline_that_was_hardened_has_its_words_where_it_is_compared_with():
    (results,), _ = collect(grid(policies=("greedy",)) + foreign())
    summary = Summary(results, FOREIGN)
    note = summary_table(results, summary).notes[0]
    assert f"beats a run of {FOREIGN} (fog trained on; snow and rain unseen)" in note
