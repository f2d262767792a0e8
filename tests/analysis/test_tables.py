"""From rows to the paper's table and its summary, in every format."""

import csv
import io
import re

import numpy as np
import pytest
from rich.console import Console

from dsacc.analysis.formats import render
from dsacc.analysis.references import paper_table, reference_scores
from dsacc.analysis.results import collect
from dsacc.analysis.rows import Condition, Row
from dsacc.analysis.summary import Summary, interval_note
from dsacc.analysis.tables import score_table, summary_table
from dsacc.errors import ConfigError

ID = Condition("id")
SHIFTS = ("id", "snow", "rain", "fog")


def row(returns, env="Breakout", agent="dsac", seed=0, shift="id", severity="paper", mode="independent", **other):
    clean = shift == "id"
    return {
        "env": env,
        "agent": agent,
        "train_seed": seed,
        "eval_seed": 0,
        "step": 1000,
        "shift": shift,
        "severity": None if clean else severity,
        "mode": None if clean else mode,
        "policy": "greedy",
        "returns": [float(x) for x in returns],
        "lengths": [1] * len(returns),
    } | other


def grid(agents=("dsac", "dsac-m"), games=("Alien", "Breakout"), seeds=3, shifts=SHIFTS, **other):
    source = np.random.default_rng(0)
    return [
        row(source.normal(30 + 5 * agents.index(a) - 4 * shifts.index(s), 2, 4), g, a, i, s, **other)
        for g in games
        for a in agents
        for i in range(seeds)
        for s in shifts
    ]


def one(rows, **how):
    (results,), _ = collect(rows)
    return results, Summary(results, **how)


def table(rows, width=80, terminal=False, **how):
    out = io.StringIO()
    assert render(rows, console=Console(file=out, width=width, force_terminal=terminal), **how) is None
    return out.getvalue()


# --- rows to results ---


def test_every_seed_weighs_the_same_and_its_value_is_kept():
    results, _ = one([row([1, 3]), row([10], seed=1)])
    cell = results.scores[ID, "dsac", "Breakout"]
    assert cell.seeds == {0: 2, 1: 10}
    assert cell.mean == 6
    assert cell.std == pytest.approx(np.std([2, 10], ddof=1))


def test_spread_of_one_seed_is_between_episodes():
    results, _ = one([row([1, 3])])
    assert results.scores[ID, "dsac", "Breakout"].std == pytest.approx(np.sqrt(2))
    assert one([row([1])])[0].scores[ID, "dsac", "Breakout"].std is None


def test_evaluation_seeds_are_put_together_and_repeats_are_not_counted_twice():
    rows = [row([1, 2]), row([1, 2, 3]), row([1, 2]), row([9], eval_seed=1)]
    results, _ = one(rows)
    assert sorted(results.scores[ID, "dsac", "Breakout"].all_episodes) == [1, 2, 3, 9]
    assert collect(rows)[1] == []


def test_two_runs_that_claim_to_be_one_are_noted():
    (results,), notes = collect([row([1, 2]), row([5, 6])])
    assert results.scores[ID, "dsac", "Breakout"].mean == 3.5
    assert "Are these two runs, or one" in notes[0]


def test_an_agent_that_holds_one_action_is_named_with_the_conditions():
    rows = [row([1.0, 2.0], seed=seed, top_action=[1.0, 1.0 if seed else 0.5]) for seed in range(3)]
    rows += [row([1.0, 2.0], shift="snow", top_action=[1.0, 1.0])]
    rows += [row([1.0, 2.0], shift="fog", top_action=[1.0, 0.9999]), row([1.0, 2.0], agent="dsac-m")]
    _, notes = collect(rows)
    assert [note for note in notes if "action" in note] == [
        "Breakout: dsac, greedy, took one and the same action at every step: clean (2 of 3 runs), snow paper "
        "independent."
    ]


@pytest.mark.parametrize("shares", [[1.0], [1.0, 0.0], [1.0, 1.1], [1.0, "1"], "11"])
def test_shares_that_do_not_fit_the_episodes_are_refused(shares):
    with pytest.raises(ConfigError, match=r"most frequent action|top_action"):
        Row.from_json(row([1.0, 2.0], top_action=shares))


def test_greedy_episodes_that_repeat_themselves_are_told_once_per_game():
    same = {"lengths": [90, 40, 90, 40]}
    rows = [
        row([7, 3, 7, 3], **same),
        row([7, 3, 7, 3], seed=1, **same),
        row([7, 3, 7, 3], "Alien", shift="fog", **same),
    ]
    (note,) = collect(rows)[1]
    assert note == (
        "Breakout: a greedy agent repeated its episodes (2 different ones of 4), so its clean score rests on few. "
        "Test with --policy sampled too."
    )
    assert note in table(rows, width=300)


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": "sampled"},
        {"lengths": [90, 40, 91, 40]},  # three different ones of four
        {"lengths": [9, 9, 9, 9]},  # a game of one length, as Catch
    ],
)
def test_other_episodes_are_not_called_repeated(changes):
    assert collect([row([7, 3, 7, 3], **{"lengths": [90, 40, 90, 40], **changes})])[1] == []


def test_the_latest_step_of_a_run_counts_and_unequal_training_is_noted():
    (results,), notes = collect([row([1]), row([5], step=2000), row([7], agent="dsac-m")])
    assert results.scores[ID, "dsac", "Breakout"].mean == 5
    assert "latest" in notes[0]
    assert "1,000 to 2,000" in notes[1]


def test_names_of_a_game_are_one_game():
    results, _ = one([row([1], "ALE/Breakout-v5"), row([3], "Breakout", seed=1)])
    assert results.games == ["Breakout"]
    assert results.scores[ID, "dsac", "Breakout"].mean == 2


def test_pairs_are_of_the_same_seed_where_another_seed_lacks_a_test():
    rows = [row([10 * (seed + 1)], seed=seed) for seed in (0, 1, 2)]
    rows += [row([10 * (seed + 1) - 1], seed=seed, shift="snow") for seed in (2, 1)]
    results, summary = one(rows)
    snow = results.conditions[1]
    assert results.paired([ID, snow], "dsac", "Breakout").tolist() == [[20, 19], [30, 29]]
    found = summary.lines[1].gap
    assert (found.low, found.high) == pytest.approx((1 / 28.8, 1 / 28.8))  # on Breakout's scale from 1.7 to 30.5


def test_agents_of_others_are_one_run():
    results, summary = one([row([1, 2], agent="random", seed=None), row([3, 4]), row([5, 6], seed=1)])
    assert results.scores[ID, "random", "Breakout"].seeds == {None: 1.5}
    assert summary.lines[1].improvement.low is None


def test_names_of_conditions_say_what_varies():
    rows = [row([1]), *(row([1], shift="snow", severity=s) for s in (1, 3))]
    results, _ = one(rows)
    assert [results.name(c) for c in results.conditions] == ["id", "snow 1", "snow 3"]
    rows = [row([1], shift="snow", mode=m) for m in ("independent", "falling")]
    results, _ = one(rows)
    assert [results.name(c) for c in results.conditions] == ["snow falling", "snow independent"]
    results, _ = one(grid())
    assert [results.name(c) for c in results.conditions] == list(SHIFTS)


def test_no_rows_and_an_unknown_baseline_are_errors():
    with pytest.raises(ConfigError, match="no evaluation rows"):
        render([], "csv")
    with pytest.raises(ConfigError, match="no agent 'ppo'"):
        render(grid(), "csv", baseline="ppo")
    with pytest.raises(ConfigError, match="no agent 'ppo'"):
        render(grid() + grid(policy="sampled"), "csv", baseline="ppo")
    with pytest.raises(ConfigError, match="format is"):
        render(grid(), "pdf")


# --- summary ---


def test_summary_by_hand():
    """Breakout: random 1.7, human 30.5. Clean 16.1 is half of the way; snow 8.9 a quarter."""
    rows = [row([16.1], seed=s) for s in (0, 1)] + [row([8.9], seed=s, shift="snow") for s in (0, 1)]
    _, summary = one(rows)
    clean, snow = summary.lines[:2]
    assert (clean.iqm.value, snow.iqm.value) == pytest.approx((0.5, 0.25))
    assert snow.gap.value == pytest.approx(0.25)
    assert snow.retention.value == pytest.approx(0.5)
    assert clean.gap is clean.retention is clean.improvement is None


def test_gap_and_retention_use_only_seeds_that_met_both():
    rows = [row([16.1]), row([8.9], shift="snow"), row([500], seed=1), row([0], seed=2, shift="snow")]
    _, summary = one(rows)
    assert summary.lines[1].gap.value == pytest.approx(0.25)


def test_no_skill_is_marked_and_retention_leaves_it_out():
    rows = [row([1.7, 1.0], seed=s) for s in (0, 1)] + [row([1.7, 1.0], seed=s, shift="snow") for s in (0, 1)]
    results, summary = one(rows)
    assert summary.no_skill == {"dsac": ["Breakout"]}
    assert summary.lines[1].retention is None
    assert summary_table(results, summary).groups[1][0][-1].text == "no skill"
    assert score_table(results, summary).groups[0][0][2].text.endswith("†")
    both = rows + [row([7000], "Alien", seed=s, shift=c) for s in (0, 1) for c in ("id", "snow")]
    _, summary = one(both)
    assert summary.lines[1].retention.value == pytest.approx(1)  # of Alien alone


def test_one_seeds_skill_is_judged_by_its_episodes():
    assert one([row([5, 6, 7, 5])])[1].skill("dsac", "Breakout") is True
    assert one([row([0, 0, 0, 9])])[1].skill("dsac", "Breakout") is False  # mean 2.25, by one lucky game


def test_games_without_references_stay_out_of_normalised_figures():
    rows = grid(games=("CartPole-v1", "Breakout"))
    _, summary = one(rows)
    assert summary.games == ["Breakout"]
    assert any("CartPole-v1" in note for note in summary.notes)
    _, summary = one(grid(games=("CartPole-v1", "Acrobot-v1")))
    assert summary.lines[0].iqm is None
    assert summary.lines[1].improvement is not None  # needs no scale
    assert any("no common scale" in note for note in summary.notes)
    _, summary = one(grid(games=("CartPole-v1",)))
    assert summary.lines[0].iqm.value == pytest.approx(30, abs=3)  # raw
    assert summary.lines[2].retention is None


def test_catch_is_normalised_by_its_best_score():
    _, summary = one([row([1, 1], "dsacc/Catch-v0")])
    assert summary.lines[0].iqm.value == 1
    assert "best possible" in summary.unit


def test_curves_over_severity_start_at_the_clean_score():
    rows = [row([30.5])] + [row([30.5 if s < 3 else 1.7], shift="snow", severity=s) for s in (1, 2, 3, 4, 5)]
    _, summary = one(rows)
    (curve,) = summary.curves
    assert curve.levels == [0, 1, 2, 3, 4, 5]
    assert curve.scores == pytest.approx([1, 1, 1, 0, 0, 0])
    assert curve.area.value == pytest.approx(2.5 / 5)
    assert one(grid())[1].curves == []  # one severity is no curve


def test_profiles_are_of_normalised_scores():
    _, summary = one([row([16.1]), row([30.5], seed=1)])
    assert [e.value for e in summary.profile("dsac", ID, [0.4, 0.6])] == [1, 0.5]


def test_the_order_of_rows_changes_no_figure():
    rows = grid()
    assert one(rows[::-1])[1].lines == one(rows)[1].lines


def test_the_note_is_about_few_seeds_only():
    assert "no interval is defined" in interval_note(1)
    assert "72 to 88 %" in interval_note(3)
    assert "about 74 %" in interval_note(3, games=1)
    assert interval_note(6) == interval_note(5).replace("5 seeds", "6 seeds")
    assert interval_note(10) is None


# --- the table ---


def test_the_papers_table_comes_out_as_printed():
    """Its means as rows: the same cells are best as in the paper, and the sums are those of its Overall."""
    rows = [row([cell.mean], g, a, 0, c) for (g, c, a), cell in paper_table().items()]
    sheet = score_table(*one(rows))
    assert sheet.header[2:] == list(reference_scores())
    bold = {(group[0][0].text, line[1].text): [e.best for e in line[2:]] for group in sheet.groups for line in group}
    assert all(bold["Overall", "dsac-m"])
    for condition in ("id", "snow", "rain"):
        assert all(bold[condition, "dsac-m"])
    assert bold["fog", "dsac"] == [game == "Amidar" for game in reference_scores()]
    sums = {line[1].text: line[2:] for line in sheet.groups[-1]}
    assert sums["dsac-m"][8].text == "11410 (+267 %)"
    assert sums["dsac"][8].text == "3109"


def test_best_is_the_highest_mean_and_ties_share_it():
    rows = [row([1], agent="dsac"), row([3], agent="dsac-m"), row([3], agent="dsac-v")]
    (group,) = score_table(*one(rows)).groups
    assert [line[2].best for line in group] == [False, True, True]
    (group,) = score_table(*one(rows[:1])).groups
    assert not group[0][2].best  # nothing to compare with


def test_a_missing_cell_is_a_dash_and_has_no_sum():
    rows = [r for r in grid() if (r["env"], r["agent"], r["shift"]) != ("Alien", "dsac-m", "fog")]
    results, summary = one(rows)
    groups = score_table(results, summary).groups
    assert groups[3][1][2].text == "-"
    assert groups[4][1][2].text == "-"
    assert any("Not every agent" in note for note in summary.notes)


def test_gain_over_a_chosen_baseline():
    results, summary = one(grid(), baseline="dsac-m")
    overall = score_table(results, summary).groups[-1]
    assert "%" in overall[0][2].text
    assert "%" not in overall[1][2].text
    assert "P(> dsac-m)" in summary_table(results, summary).header


@pytest.mark.parametrize("width", [40, 80, 160])
def test_nine_games_fit_any_terminal(width):
    text = table(grid(games=tuple(reference_scores())), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for game in reference_scores():
        assert game in text
    assert text.count("│ dsac-m │") >= 5 * (1 if width == 160 else 2)


def test_the_terminal_shows_best_in_bold_and_a_file_with_a_star():
    rows = [row([1]), row([3], agent="dsac-m")]
    assert re.search(r"\x1b\[1m\s*3\.00", table(rows, terminal=True))
    plain = table(rows)
    assert "*3.00" in plain
    assert "\x1b" not in plain


def test_one_seed_is_said_in_place_of_an_interval():
    alone = table(grid(seeds=1))
    assert "One seed: no interval is defined" in alone
    assert "[" not in alone
    assert "P(>" not in alone  # of one run against one it would be 0 or 1
    mixed = table([*grid(), row([1, 2], agent="random", seed=None)])
    assert "(one seed)" in mixed
    assert "[" in mixed


def test_a_name_that_looks_like_markup_is_printed_as_it_is():
    assert "[red]x" in table([row([1], agent="[red]x")])


@pytest.mark.parametrize("format", ["table", "csv", "markdown", "latex"])
def test_no_name_commands_the_terminal(format):
    """Rows come from files, and a name may hold what sets a window's title or clears the screen."""
    hostile = "\x1b]0;mine\x07\x1b[2J[red]"
    rows = [row([1, 2], f"game{hostile}", f"agent{hostile}", seed) for seed in (0, 1)]
    shown = io.StringIO()
    text = render(rows, format, console=Console(file=shown, force_terminal=False, width=200)) or shown.getvalue()
    assert "]0;mine" in text
    assert not {"\x1b", "\x07"} & set(text)


def test_policies_are_tables_of_their_own():
    rows = grid() + grid(policy="sampled")
    assert table(rows).count("Raw scores") == 2


# --- files ---


def test_csv_is_tidy():
    rows = [*grid(), row([1, 2], agent="random", seed=None)]
    lines = list(csv.DictReader(io.StringIO(render(rows, "csv"))))
    assert len(lines) == 2 * 2 * 4 + 1
    snow = next(x for x in lines if (x["env"], x["shift"], x["agent"]) == ("Breakout", "snow", "dsac"))
    values = [float(snow[f"seed_{s}"]) for s in range(3)]
    assert float(snow["mean"]) == pytest.approx(np.mean(values))
    assert float(snow["std"]) == pytest.approx(np.std(values, ddof=1))
    assert (snow["n_seeds"], snow["n_episodes"], snow["std_over"], snow["seed_none"]) == ("3", "12", "seeds", "")
    assert float(snow["retention"]) < 1
    assert (lines[-1]["agent"], lines[-1]["seed_none"], lines[-1]["severity"]) == ("dsac-m", "", "paper")
    random = next(x for x in lines if x["agent"] == "random")
    assert (random["seed_none"], random["n_seeds"], random["skill"]) == ("1.5", "1", "no")


def test_markdown_has_as_many_columns_in_every_line():
    text = render([*grid(), row([1], agent="a|b_c")], "markdown")
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) == 2
    for lines in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
        assert set(lines[1]) <= set("|-: ")
    assert re.search(r"\*\*\d+\.\d+ ± \d+\.\d+", text)
    assert r"a\|b\_c" in text


def test_latex_is_well_formed():
    text = render([*grid(), row([1], agent="50%_{x}&$#^~\\")], "latex")
    assert text.isascii()
    assert text.count("\\begin{table}") == text.count("\\end{table}") == 2
    plain = re.sub(r"\\[{}]", "", text)
    depth = np.cumsum([(c == "{") - (c == "}") for c in plain])
    assert depth.min() >= 0
    assert depth[-1] == 0
    for body in re.findall(r"\\toprule\n(.*?)\\bottomrule", text, re.S):
        lines = [x for x in body.splitlines() if x != "\\midrule"]
        assert all(x.endswith(r" \\") for x in lines)
        assert len({len(re.findall(r"(?<!\\)&", x)) for x in lines}) == 1
    assert re.search(r"\\textbf\{\d+\.\d+\} \$\\pm\$", text)
    assert r"50\%\_\{x\}\&\$\#\textasciicircum{}\textasciitilde{}\textbackslash{}" in text
