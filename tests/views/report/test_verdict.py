"""The words follow from the figures, and say no more than these do."""

import pytest

from dsacc.analysis.names import display_name
from dsacc.analysis.results import collect
from dsacc.analysis.statistics import Estimate
from dsacc.analysis.summary import Summary
from dsacc.views.report.verdict import by_luck, claims, disagreements, headline, headlines, judge, limits


def row(agent, seed, scores, shift="id", game="Breakout", policy="greedy"):
    severity, mode = (None, None) if shift == "id" else ("paper", "independent")
    about = {"env": game, "agent": agent, "train_seed": seed, "eval_seed": 0, "step": 100_000, "policy": policy}
    returns = list(scores)
    return {
        **about,
        "shift": shift,
        "severity": severity,
        "mode": mode,
        "returns": returns,
        "lengths": [1] * len(returns),
    }


def made(rows):
    results = collect(rows)[0][0]
    return results, Summary(results)


def test_one_seed_says_nothing_about_seeds():
    claim = judge("dsac-m", "dsac", "snow", Estimate(1.0, None, None, 1), 1, True, pairs=1)
    assert claim.word == "one seed"
    assert claim.sentence == "The run of DSAC-M scored higher than the run of DSAC."


def test_one_seed_in_many_games_counts_them():
    claim = judge("dsac-m", "dsac", "clean", Estimate(6.5 / 9, None, None, 1), 9, True, pairs=9)
    assert claim.sentence == "DSAC-M scored higher than DSAC in 6.5 of 9 games (a tie counts half)."


def test_several_conditions_are_counted_as_tests_and_never_as_parts_of_games():
    rows = [row("dsac", 0, [10.0], shift, game) for shift in ("id", "snow") for game in ("Breakout", "Seaquest")]
    rows += [row("dsac-m", 0, [9.0], shift, game) for shift in ("id", "snow") for game in ("Breakout", "Seaquest")]
    rows[4]["returns"] = [11.0]  # the first of DSAC-M's four tests
    *_, together = claims(*made(rows))["dsac-m"]
    assert (together.word, together.pairs) == ("one seed", 4)
    assert together.sentence == "DSAC-M scored higher than DSAC in 1 of 4 tests."


def test_where_only_some_games_have_one_seed_a_probability_is_said_as_such():
    rows = [row(a, s, [10.0 + s], game="Seaquest") for a in ("dsac", "dsac-m") for s in range(2)]
    rows += [row("dsac", 0, [10.0]), row("dsac-m", 0, [12.0])]
    (claim,) = claims(*made(rows))["dsac-m"]
    assert claim.word == "one seed"
    assert claim.sentence.endswith("a run of DSAC-M beats a run of DSAC with probability 0.75, over 2 games.")


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.9), (0.5, 0.9), (0.1, 0.5), (0.5, 0.5)])
def test_an_interval_that_holds_a_half_decides_nothing(low, high):
    claim = judge("dsac-m", "dsac", "fog", Estimate((low + high) / 2, low, high, 30), 9, True)
    assert claim.word == "not decided"
    assert "neither a difference nor its absence" in claim.sentence


@pytest.mark.parametrize(("low", "high", "side"), [(0.51, 0.9, "better"), (0.1, 0.49, "worse")])
def test_few_seeds_make_a_hint_and_ten_a_finding(low, high, side):
    few = judge("dsac-v", "dsac", "rain", Estimate((low + high) / 2, low, high, 3), 9, True)
    many = judge("dsac-v", "dsac", "rain", Estimate((low + high) / 2, low, high, 10), 9, True)
    assert (few.word, many.word) == (f"hint: {side}", side)
    assert "3 seeds are too few to settle it" in few.sentence
    assert f"({low:.2f} to {high:.2f}), over 9 games" in many.sentence


def test_no_skill_comes_before_any_comparison():
    claim = judge("dsac-m", "dsac", "fog", Estimate(1.0, 1.0, 1.0, 10), 1, False)
    assert claim.word == "no skill"


def test_no_game_in_common_is_no_data():
    assert judge("dsac-m", "dsac", "fog", None, 0, True).word == "no data"


def test_claims_come_from_the_statistics():
    rows = [row("dsac", s, [2 + s, 3 + s], shift) for s in range(3) for shift in ("id", "snow")]
    rows += [row("dsac-m", s, [20 + s, 30], shift) for s in range(3) for shift in ("id", "snow")]
    results, summary = made(rows)
    found = claims(results, summary)
    assert list(found) == ["dsac-m"]
    assert [(c.condition, c.word) for c in found["dsac-m"]] == [
        ("clean", "hint: better"),
        ("snow", "hint: better"),
        ("all together", "hint: better"),
    ]
    assert [c.estimate for c in found["dsac-m"]] == [
        line.improvement for line in summary.lines if line.agent == "dsac-m"
    ]
    assert headline("dsac-m", found["dsac-m"]) == (
        "DSAC-M against DSAC: a hint that it is better (clean and snow; all together)."
    )


def test_agents_without_skill_are_not_compared():
    rows = [row(a, s, [0.0, 1.0]) for a in ("dsac", "dsac-m") for s in range(3)]  # random has 1.7
    results, summary = made(rows)
    assert [c.word for c in claims(results, summary)["dsac-m"]] == ["no skill"]
    assert any(
        "is not shown to beat a random player in Breakout" in note for note in limits(results, summary, [100_000], True)
    )


def test_limits_name_the_seeds_and_the_length_of_training():
    results, summary = made([row(a, s, [10.0, 11.0]) for a in ("dsac", "dsac-m") for s in range(3)])
    said = " ".join(limits(results, summary, [100_000], True))
    assert "3 seeds make a 95 % interval too narrow" in said
    assert "trained for 1,000,000 steps, these for 100,000" in said
    assert "not about other games" in said
    assert "1,000,000" not in " ".join(limits(results, summary, [1_000_000], True))


def test_ways_of_playing_that_disagree_are_named():
    rows = [row(a, s, [10.0 + s * (a == "dsac"), 11.0]) for a in ("dsac", "dsac-m") for s in range(3)]
    rows += [row(a, s, [10.0 + 20 * (a == "dsac-m")], policy="sampled") for a in ("dsac", "dsac-m") for s in range(3)]
    by_policy = {r.policy: claims(r, Summary(r)) for r in collect(rows)[0]}
    (said,) = disagreements(by_policy)
    assert said == "DSAC-M, clean: “not decided” with greedy actions, “hint: better” with sampled actions."
    assert disagreements({"greedy": by_policy["greedy"]}) == []


def test_names_of_the_paper_are_written_as_there():
    assert [display_name(a) for a in ("dsac-m", "dsac-mv, no noise", "random")] == [
        "DSAC-M",
        "DSAC-MV, no noise",
        "random",
    ]


def test_many_undecided_agents_share_a_sentence_and_luck_is_spoken_of():
    def claim(agent, low):
        return judge(agent, "dsac", "clean", Estimate(0.7, low, 0.9, 5), 1, True)

    found = {f"dsac-m, {i}": [claim(f"dsac-m, {i}", 0.55 if i == 1 else 0.2)] * 3 for i in range(4)}
    assert headlines(found) == [
        "DSAC-M, 1 against DSAC: a hint that it is better (clean, clean and clean).",
        "Not decided under any condition, nor over all of them together, against DSAC: "
        "DSAC-M, 0; DSAC-M, 2; DSAC-M, 3.",
    ]
    assert "12 comparisons are made here" in by_luck(found)[0]
    assert by_luck({"dsac-m": found["dsac-m, 1"]}) == []
