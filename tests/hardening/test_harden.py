import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.checkpoints import killed_in_its_last_save, newest_intact
from helpers.sides import Sides, perfect, perfect_actions
from robustness.crash import fingerprint

from dsacc import DSAC, evaluate, harden
from dsacc.cli import main
from dsacc.errors import ConfigError, RunError, Stopped
from dsacc.hardening.distil import CHECKPOINT_EVERY
from dsacc.hardening.states import GAMES, collect
from dsacc.hardening.teacher import Teacher
from dsacc.hardening.work import ROUNDS, STATES, UPDATES, Recipe, Work
from dsacc.play.adapters import as_player
from dsacc.runs import Checkpoints
from dsacc.system.signals import StopSignals

SMALL = {"updates": 12, "states": 128, "rounds": 1}
TINY = {"hidden": 16, "batch_size": 8, "random_steps": 20}


@pytest.fixture(scope="module")
def teacher():
    return DSAC(Sides, "mean", "efficient", picture_filter="high-pass", **TINY).learn(40)


def mean(rows):
    return {row["shift"]: float(np.mean(row["returns"])) for row in rows}


def test_a_player_that_only_looks_becomes_a_student_that_keeps_its_score():
    student = harden(perfect_actions, Sides, updates=300, states=500, seed=1)
    asked = {"shifts": ["id", "snow", "rain", "fog"], "episodes": 50}
    score = mean(evaluate(student, Sides, **asked))
    assert score["id"] > 3.8  # of 4; 2 by chance
    assert min(score.values()) > 3.2, score
    assert student.config.picture_filter == "detail"


def test_a_student_of_ours_can_begin_as_a_copy_and_its_teacher_stays_as_it_is(teacher, monkeypatch):
    before = {name: tensor.clone() for name, tensor in teacher.learner.state().items()}
    monkeypatch.setattr("dsacc.hardening.distil.RATE", 0.0)
    student = harden(teacher, Sides, **SMALL, fresh=False)
    seen = np.stack([Sides().reset(seed=s)[0] for s in range(20)])
    assert (student.logits(seen) == teacher.logits(seen)).all()
    assert all((before[name] == tensor).all() for name, tensor in teacher.learner.state().items())
    assert (student.config, student.step) == (teacher.config, teacher.step)


@pytest.mark.parametrize("asked", [{}, {"picture_filter": "none"}, {"picture_filter": "none", "fresh": False}])
def test_a_student_begins_anew_with_a_layer_norm_and_keeps_the_other_settings(teacher, asked):
    student = harden(teacher, Sides, **SMALL, **asked)
    seen_through = asked.get("picture_filter", "detail")
    new = {"picture_filter": seen_through, "layer_norm": True, "rescale_features": False}
    assert student.config == replace(teacher.config, **new)
    assert student.step == teacher.step
    assert student.hardened["fresh"] is True


def test_an_agent_that_was_trained_under_augmentation_gets_a_filtered_student_that_remembers_it():
    teacher = DSAC(Sides, None, "efficient", augment_pictures="near", augmented_states=4, **TINY).learn(30)
    student = harden(teacher, Sides, **SMALL)
    assert (student.config.picture_filter, student.config.augment_pictures) == ("detail", "none")
    assert {row["exposure"] for row in evaluate(student, Sides, shifts=["snow", "fog"], episodes=1)} == {"near"}


def test_the_student_learns_to_say_under_augmentation_what_its_teacher_says_of_the_clean_picture(teacher):
    def agreement(updates):
        rows = []
        work = Work(DSAC.from_file(teacher.to_file()), Teacher(as_player(teacher), 2), Sides, Recipe(updates=updates,
                    states=400, rounds=0), 1e-3)  # fmt: skip
        rows = [row for row in work.steps(lambda: None) if row is not None]
        return rows[0]["divergence"], rows[-1]["divergence"], rows[-1]["value_loss"], rows[0]["value_loss"]

    first, last, values, first_values = agreement(500)
    assert last < 0.8 * first
    assert values < 0.8 * first_values


def test_values_are_kept_too_so_that_a_student_can_go_on_learning(teacher, monkeypatch):
    monkeypatch.setattr("dsacc.hardening.distil.RATE", 1e-4)  # twelve updates are not enough to settle at a larger one
    student = harden(teacher, Sides, **SMALL, fresh=False)
    seen = np.stack([Sides().reset(seed=s)[0] for s in range(20)])
    before, after = (Teacher(as_player(agent), 2).answer(seen).q_2NA for agent in (teacher, student))
    assert np.abs(after - before).mean() < 0.3 * before.std()
    online = student.learner.q_values(torch.from_numpy(student.observations.encode(seen)))
    assert np.allclose(online, after.mean(axis=0), atol=1e-6)  # the critics that `watch` shows
    again = DSAC.from_file(student.to_file(), Sides)
    assert again.learn(30).step == teacher.step + 30
    assert again.hardened == student.hardened


def test_one_seed_gives_one_student_and_another_seed_another(teacher):
    one, two, other = (harden(teacher, Sides, **SMALL, seed=s).learner.state() for s in (0, 0, 1))
    assert all((one[name] == two[name]).all() for name in one)
    assert any((one[name] != other[name]).any() for name in one)


# --- teachers ---


def test_actions_are_certain_and_scores_are_logits_or_values():
    seen = np.stack([Sides().reset(seed=s)[0] for s in range(8)])
    actions = Teacher(as_player(perfect_actions), 2)
    assert np.allclose(actions.answer(seen).policy_NA.max(axis=1), 1)
    assert (actions.answer(seen).policy_NA.argmax(axis=1) == perfect_actions(seen)).all()
    scores = Teacher(as_player(perfect), 2).answer(seen)
    wanted = np.exp(perfect(seen)) / np.exp(perfect(seen)).sum(axis=1, keepdims=True)
    assert np.allclose(scores.policy_NA, wanted, atol=1e-6)
    assert scores.q_2NA is None
    values = Teacher(as_player(perfect), 2, values=True).answer(seen)
    assert np.allclose(values.q_2NA, [perfect(seen)] * 2)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_policy_made_from_values_does_not_depend_on_the_scale_of_rewards(scale):
    seen = np.stack([Sides().reset(seed=s)[0] for s in range(8)])
    plain = Teacher(as_player(perfect), 2, values=True).answer(seen).policy_NA
    scaled = Teacher(as_player(lambda x: perfect(x) * scale), 2, values=True).answer(seen).policy_NA
    assert np.allclose(plain, scaled, atol=1e-5)
    assert (plain.max(axis=1) > 0.95).all()


def test_a_teacher_of_ours_answers_with_the_networks_that_act(teacher):
    seen = np.stack([Sides().reset(seed=s)[0] for s in range(8)])
    answers = Teacher(as_player(teacher), 2).answer(seen)
    logits = torch.from_numpy(teacher.logits(seen))
    assert np.allclose(answers.policy_NA, torch.softmax(logits, -1), atol=1e-6)
    observation = teacher.learner.scaled(torch.from_numpy(teacher.observations.encode(seen)))
    with torch.no_grad():
        wanted = torch.stack(teacher.learner.target_critics(observation))
    assert np.allclose(answers.q_2NA, wanted, atol=1e-6)


# --- states ---


def test_states_are_the_teachers_first_and_then_the_students_and_only_clean_ones_are_kept(teacher, monkeypatch):
    who = []
    acting = DSAC.logits
    monkeypatch.setattr(DSAC, "logits", lambda self, x: (who.append((self, x)), acting(self, x))[1])
    student = DSAC.from_file(teacher.to_file())
    work = Work(student, Teacher(as_player(teacher), 2), Sides, Recipe(updates=8, states=200, rounds=2), 1e-3)
    for _ in work.steps(lambda: None):
        pass
    assert work.rounds == [(0, 100), (2, 50), (4, 50)]
    clean = (30, 200)
    assert all(np.isin(work.states_of(number), clean).all() for number in range(3))
    assert all(np.isin(x, clean).all() for model, x in who if model is teacher)
    shown = [x for model, x in who if model is student]
    assert shown
    assert not any(np.isin(x, clean).all() for x in shown)


def test_games_of_a_test_are_never_collected():
    seeds = []

    class Noted(Sides):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed)

    player = as_player(perfect_actions)
    player.check_fits(Sides())
    kept = list(collect(player.act, Noted, 300, np.random.SeedSequence((0, 1))))
    collected, seeds[:] = set(seeds), []
    evaluate(perfect_actions, Noted, episodes=200, shifts=["id"])
    assert len(kept) == 300
    assert len(collected) > GAMES
    assert collected.isdisjoint(seeds)


# --- its folder ---


def test_a_stopped_student_ends_with_the_same_bytes_wherever_it_was_stopped(teacher, tmp_path, monkeypatch):
    monkeypatch.setattr("dsacc.hardening.work.LOG_EVERY", 4)
    harden(teacher, Sides, **SMALL, checkpoint_every=5, out=tmp_path / "whole")
    agreed = fingerprint(tmp_path / "whole")
    assert [name for name in agreed if name.endswith(".safetensors")] == ["checkpoints/step-12/agent.safetensors"]
    for stop_at in (3, 65, 68, 69, 70, 100, 136, 139):  # in both collections, between updates, at checkpoints
        out, calls = tmp_path / f"stopped-{stop_at}", iter(range(1, 10_000))

        def check(self, stop_at=stop_at, calls=calls):
            if next(calls) == stop_at:
                raise Stopped(15)

        monkeypatch.setattr(StopSignals, "check", check)
        with pytest.raises(Stopped):
            harden(teacher, Sides, **SMALL, checkpoint_every=5, out=out)
        assert json.loads((out / "status.json").read_text())["state"] == "stopped"
        harden(teacher, Sides, **SMALL, checkpoint_every=5, out=out)
        assert fingerprint(out) == agreed, stop_at


def test_a_student_killed_after_its_last_save_ends_with_the_same_bytes(teacher, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    harden(teacher, Sides, **SMALL, checkpoint_every=4, out=whole)
    with killed_in_its_last_save(12), pytest.raises(KeyboardInterrupt):
        harden(teacher, Sides, **SMALL, checkpoint_every=4, out=killed)
    assert len(list((killed / "replay").iterdir())) == 2  # the states of both rounds are still there
    harden(teacher, Sides, **SMALL, checkpoint_every=4, out=killed)
    assert fingerprint(killed) == fingerprint(whole)


def test_a_checkpoint_without_its_hardening_is_one_sentence(teacher, tmp_path):
    with killed_in_its_last_save(8), pytest.raises(KeyboardInterrupt):
        harden(teacher, Sides, **SMALL, checkpoint_every=4, out=tmp_path)
    found = newest_intact(tmp_path)
    files = {"agent.safetensors": found.files["agent.safetensors"]}
    Checkpoints(tmp_path).write(8, True, files, found.manifest.segments, found.manifest.extra)
    with pytest.raises(RunError, match=r"the checkpoint of step 8 has no hardening\.safetensors"):
        harden(teacher, Sides, **SMALL, checkpoint_every=4, out=tmp_path)


def test_a_finished_folder_is_an_agent_and_is_not_made_again(teacher, tmp_path, monkeypatch):
    out = tmp_path / "student"
    student = harden(teacher, Sides, **SMALL, out=out)
    monkeypatch.setattr(Work, "_learn", lambda self: pytest.fail("it learned again"))
    again, loaded = harden(teacher, Sides, **SMALL, out=out), DSAC.load(out)
    for other in (again, loaded):
        assert all((tensor == other.learner.state()[name]).all() for name, tensor in student.learner.state().items())
    row = evaluate(str(out), Sides, shifts=["fog"], episodes=2)[0]
    assert (row["agent"], row["exposure"], row["step"]) == ("dsac-m, hardened", "unseen", teacher.step)


def test_rows_say_what_the_agent_was_hardened_with(teacher):
    near = harden(teacher, Sides, **SMALL, augment="near")
    named = harden(teacher, Sides, **SMALL, augment=["fog", "light"])
    words = {
        student.hardened["name"]: {r["shift"]: r.get("exposure") for r in evaluate(student, Sides, episodes=1)}
        for student in (near, named)
    }
    assert words == {
        "dsac-m, hardened (near)": {"id": None, "snow": "near", "rain": "near", "fog": "near"},
        "dsac-m, hardened (fog light)": {"id": None, "snow": "unseen", "rain": "unseen", "fog": "trained on"},
    }
    twice = harden(named, Sides, **SMALL)
    assert "fog" in twice.hardened["kinds"]
    assert "overlay" in twice.hardened["kinds"]


def test_another_recipe_or_a_training_run_in_the_same_folder_is_refused(teacher, tmp_path):
    harden(teacher, Sides, **SMALL, out=tmp_path / "student")
    with pytest.raises(RunError, match="seed 0 there, 5 here"):
        harden(teacher, Sides, **SMALL, seed=5, out=tmp_path / "student")
    with pytest.raises(RunError, match="contains a hardened agent, not a training run"):
        DSAC(Sides, "mean", "efficient", picture_filter="high-pass", **TINY).learn(40, out=tmp_path / "student")
    trained = tmp_path / "trained"
    DSAC(Sides, "mean", "efficient", picture_filter="high-pass", **TINY).learn(10, out=trained)
    with pytest.raises(RunError, match="contains a training run, not a hardened agent"):
        harden(teacher, Sides, **SMALL, out=trained)


# --- refusals ---


@pytest.mark.parametrize(
    ("agent", "settings", "message"),
    [
        ("random", {}, "does not look at what it plays"),
        (perfect, {"augment": "genric"}, "did you mean 'generic'"),
        (perfect, {"updates": 0}, "updates must be a whole number of at least 1, not 0"),
        (perfect, {"states": 10}, "states must be a whole number of at least 64, not 10"),
        (perfect, {"rounds": 100, "states": 640}, "100 rounds are too many"),
        (perfect, {"states": 10**12}, "are free; use states"),
        (perfect_actions, {"values": True}, "answers with actions, which are not values"),
        (perfect, {"picture_filter": "low-pass"}, "picture_filter is one of"),
        (perfect, {"encoder": "natur"}, "did you mean 'nature'"),
        (perfect, {"device": "cuda:7"}, "device 'cuda:7' is not available here"),
    ],
)
def test_a_mistake_is_one_sentence(agent, settings, message):
    with pytest.raises(ConfigError, match=message):
        harden(agent, Sides, **settings)


def test_a_new_student_may_have_another_encoder(teacher):
    student = harden(teacher, Sides, encoder="mlp", **SMALL)
    assert (student.config.encoder, student.learner.critics.encoders[0].kind) == ("mlp", "mlp")
    with pytest.raises(ConfigError, match="a copy of the agent has its encoder"):
        harden(teacher, Sides, encoder="mlp", fresh=False, picture_filter="high-pass", **SMALL)


def test_vectors_are_refused():
    with pytest.raises(ConfigError, match="shows no pictures"):
        harden(lambda x: np.zeros(len(x), int), "CartPole-v1")


def test_nothing_is_written_where_nothing_is_asked_for(teacher, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    harden(teacher, Sides, **SMALL)
    assert not list(Path(tmp_path).iterdir())


def test_the_help_gives_the_defaults(capsys):
    with pytest.raises(SystemExit):
        main(["harden", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name, value in (("updates", UPDATES), ("states", STATES), ("rounds", ROUNDS)):
        assert re.search(rf"--{name} .*?\(default: {value}\)", text), name
    assert f"checkpoints (default: {CHECKPOINT_EVERY})" in text
