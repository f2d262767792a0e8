"""Actions that are not allowed: never taken, never learned from; on a chain that refuses to be played otherwise."""

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from probes import MaskedChain, Probe, ToldChain

from dsacc import DSAC, evaluate, harden
from dsacc.errors import BadInput, EnvError, ModelError
from dsacc.replay import Replay
from dsacc.replay.segments import export_segment, restore_segments
from dsacc.training.streams import best_actions, random_actions, sample_actions

TINY = {"random_steps": 40, "hidden": 16, "batch_size": 8, "log_every": 50, "replay_size": 400, "n_step": 3}
SOFT = {"random_steps": 50, "train_every": 1, "n_step": 1, "hidden": 32, "learning_rate": 5e-3, "target_tau": 0.1}
STATES = np.stack([Probe.see(0.0), Probe.see(1.0)])


@pytest.mark.parametrize(
    ("chain", "settings"),
    [
        (ToldChain, {}),
        (MaskedChain, {"constraint": "mean"}),
        (MaskedChain, {"constraint": "both", "perturbation": "weights"}),
    ],
)
def test_an_action_that_is_not_allowed_is_never_taken_and_never_sampled_from_the_replay(chain, settings):
    model = DSAC(chain, envs=2, **TINY, **settings)
    seen, update = [], model.learner.update

    def watched(batch, *rest):
        seen.append(batch)
        return update(batch, *rest)

    model.learner.update = watched
    rows = []
    model.learn(110, callback=rows.append)  # the chain itself refuses
    assert max(row.get("entropy", 0.0) for row in rows) <= np.log(2)  # of at most two actions
    assert len(seen) > 50
    for batch in seen:
        for what, mask in ((batch.observation, batch.mask_BA), (batch.next_observation, batch.next_mask_BA)):
            wanted = torch.from_numpy(MaskedChain.allowed)[what[:, 0].long()]
            assert mask.equal(wanted)
        assert batch.mask_BA.gather(1, batch.action_B[:, None]).all()
        assert (batch.entropy_B[batch.mask_BA.sum(dim=1) == 1] == 0).all()


def test_the_values_learned_are_those_of_the_allowed_actions():
    """If the mask were left out of the targets, state 1 would be worth more: action 1 would stay there."""
    model = DSAC(MaskedChain(), alpha=0.3, gamma=0.7, critic_entropy=1.0, **SOFT).learn(700)
    with torch.no_grad():
        q = sum(model.learner.critics(torch.tensor(STATES))) / 2
    wanted = MaskedChain.soft_q(0.7, 0.3)
    found = q.numpy()[[0, 0, 1], [0, 1, 0]]
    assert found == pytest.approx(wanted[[0, 0, 1], [0, 1, 0]], rel=0.06)
    masks = MaskedChain.allowed
    assert model.predict(STATES, deterministic=True, action_masks=masks)[0].tolist() == [1, 0]
    pi = torch.softmax(torch.tensor(model.logits(STATES))[0, :2], dim=0)
    assert pi[1].item() == pytest.approx(1 / (1 + np.exp((wanted[0, 0] - wanted[0, 1]) / 0.3)), abs=0.05)


def hashes(folder: Path) -> dict[str, str]:
    files = [p for p in folder.rglob("*") if p.suffix == ".safetensors" or p.name == "metrics.jsonl"]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(files)}


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from probes import MaskedChain
from dsacc import DSAC
kill = lambda model: os.kill(os.getpid(), signal.SIGKILL)
model = DSAC(MaskedChain, "mean", envs=4, checkpoint_every=50, **eval(sys.argv[3]))
model.learn(120, out=sys.argv[1], every={90: kill})
"""


def test_a_killed_run_with_masks_ends_in_the_same_bytes(tmp_path):
    settings = {**TINY, "envs": 4, "checkpoint_every": 50}
    DSAC(MaskedChain, "mean", **settings).learn(120, out=tmp_path / "whole")
    program = [sys.executable, "-c", KILLED, str(tmp_path / "killed"), str(Path(__file__).parents[1]), repr(TINY)]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    with pytest.warns(UserWarning, match="which is gone"):
        DSAC(MaskedChain, "mean", **settings).learn(120, out=tmp_path / "killed")
    assert hashes(tmp_path / "killed") == hashes(tmp_path / "whole")


def test_a_replay_keeps_masks_as_bits_and_gives_them_back_from_disk():
    rng, spec = np.random.default_rng(0), DSAC(MaskedChain(), **TINY).observations.spec
    replays = [Replay(60, spec, 2, envs=2) for _ in range(2)]
    masks = {}
    for replay in replays:
        replay.keep_masks(11)
    for i in range(100):
        mask = rng.random(11) < 0.5
        masks[i] = mask
        now, then = (np.array([k, 0], np.float32) for k in (i, i + 1000))
        masks[i + 1000] = ~mask
        both = {"mask": mask, "next_mask": ~mask}
        replays[0].add(now, 0, 0.0, False, i % 7 < 2, then, env=i % 2, **both)
    assert replays[0].columns["masks"].shape == (60, 2)
    restore_segments(replays[1], [export_segment(replays[0], np.zeros(2, np.int64))])
    for replay in replays:
        batch = replay.sample(200, np.random.default_rng(1))
        for seen, found in ((batch.observation, batch.mask_BA), (batch.next_observation, batch.next_mask_BA)):
            assert (found == np.stack([masks[int(k)] for k in seen[:, 0]])).all()


class Late(ToldChain):
    """Allows everything, and begins to say so."""

    allowed = np.ones((2, 3), bool)
    tells = False

    def told(self):
        return super().told() if self.tells else {}

    def step(self, action):
        return super().step(min(action, 1))


def test_a_run_from_before_there_were_masks_continues_without_them_as_it_was(tmp_path, monkeypatch):
    DSAC(Late, **TINY).learn(120, out=tmp_path / "whole")
    DSAC(Late, **TINY).learn(80, out=tmp_path / "grown")
    monkeypatch.setattr(Late, "tells", True)
    with pytest.warns(UserWarning, match="began without action masks and continues without them"):
        DSAC(Late, **TINY).learn(120, out=tmp_path / "grown")
    names = [name for name in hashes(tmp_path / "whole") if "step-120" in name]
    assert len(names) > 1
    assert [hashes(tmp_path / "grown")[name] for name in names] == [hashes(tmp_path / "whole")[name] for name in names]


# --- playing ---


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
@pytest.mark.parametrize("chain", [MaskedChain, ToldChain])
def test_tests_choose_among_allowed_actions(chain, policy):
    def best_is_forbidden(seen):
        return np.tile([0.0, 1.0, 9.0], (len(seen), 1))

    for agent in (DSAC(chain(), **TINY), "random", best_is_forbidden):
        (row,) = evaluate(agent, chain, episodes=3, policy=policy)
        assert row["lengths"] == [20] * 3


@pytest.mark.parametrize("policy", ["greedy", "sampled"])
def test_a_maskable_ppo_is_given_the_masks_of_its_environment(tmp_path, policy):
    contrib = pytest.importorskip("sb3_contrib")
    settings = {"n_steps": 16, "batch_size": 16, "device": "cpu", "policy_kwargs": {"net_arch": [8]}, "seed": 0}
    model = contrib.MaskablePPO("MlpPolicy", MaskedChain(), **settings).learn(16)
    model.save(tmp_path / "ppo")
    for agent in (model, f"sb3:{tmp_path / 'ppo'}"):
        (row,) = evaluate(agent, MaskedChain, episodes=3, policy=policy, trust=True)
        assert (row["agent"], row["lengths"]) == ("sb3:MaskablePPO", [20] * 3)


@pytest.mark.parametrize("deterministic", [True, False])
def test_sb3_contribs_own_test_plays_our_agents_among_allowed_actions(deterministic):
    evaluation = pytest.importorskip("sb3_contrib.common.maskable.evaluation")
    how = {"n_eval_episodes": 2, "deterministic": deterministic, "return_episode_rewards": True, "warn": False}
    _, lengths = evaluation.evaluate_policy(DSAC(MaskedChain(), **TINY), MaskedChain(), **how)
    assert lengths == [20, 20]  # a chain that was played otherwise would have raised


def test_wrappers_and_shifts_let_the_mask_through():
    def make():
        return gym.wrappers.TimeLimit(MaskedChain(), 7)

    (row,) = evaluate(DSAC(make(), **TINY), make, shifts=["gaussian_noise"], severity=3, episodes=2)
    assert row["lengths"] == [7, 7]


def test_predict_takes_masks_for_one_observation_and_for_a_batch():
    model = DSAC(MaskedChain(), **TINY)
    for action in range(3):
        only = np.arange(3) == action
        assert model.predict(STATES[0], deterministic=True, action_masks=only)[0] == action
        assert model.predict(STATES[0], action_masks=only.astype(int))[0] == action
        assert model.predict(STATES, action_masks=only)[0].tolist() == [action] * 2
    each = np.array([[0, 0, 1], [0, 1, 0]])
    assert model.predict(STATES, action_masks=each)[0].tolist() == [2, 1]
    for bad, why in (([1, 1], r"shape \(2,\); it must have \(3,\)"), ([0, 0, 0], "allows no"), ([0, 2, 1], "0 and 1")):
        with pytest.raises(ModelError, match=why):
            model.predict(STATES[0], action_masks=bad)


def test_draws_are_uniform_or_from_the_policy_among_what_is_allowed():
    rng, mask = np.random.default_rng(0), np.array([True, False, True, True])
    drawn = random_actions(np.tile(mask, (9000, 1)), rng)
    assert np.bincount(drawn, minlength=4)[[0, 2, 3]] == pytest.approx([3000] * 3, rel=0.06)
    logits = np.log([0.1, 0.6, 0.1, 0.2])
    drawn = sample_actions(np.tile(logits, (9000, 1)), rng, np.tile(mask, (9000, 1)))
    assert np.bincount(drawn, minlength=4) / 9000 == pytest.approx([0.25, 0, 0.25, 0.5], abs=0.02)
    for hopeless in (-np.inf, np.nan):  # even then
        assert best_actions(np.array([[9.0, hopeless]]), np.array([[False, True]])) == [1]


# --- what is refused ---


class Wrong(MaskedChain):
    mask = None

    def action_masks(self):
        return self.mask


@pytest.mark.parametrize(
    ("mask", "why"),
    [
        (np.ones(4, bool), r"shape \(4,\); it must have \(3,\)"),
        (np.zeros(3, bool), "allows no action"),
        (np.array([1.0, 0.5, 0.0]), "values other than 0 and 1"),
        (["yes", "no", "no"], "values other than 0 and 1|not an array of bools"),
        (np.array([[1], [0, 1]], object), "not an array of bools|shape"),
    ],
    ids=str,
)
def test_a_mask_that_cannot_be_used_is_one_sentence(mask, why):
    env = Wrong()
    env.mask = mask
    for use in (lambda: DSAC(env, **TINY).learn(10), lambda: evaluate("random", lambda: env, episodes=1)):
        with pytest.raises(EnvError, match=f"the environment's action mask .*({why})"):
            use()


class Forgetful(ToldChain):
    def step(self, action):
        return (*super().step(action)[:4], {})


def test_an_environment_that_forgets_its_mask_is_told_so():
    for use in (lambda: DSAC(Forgetful(), **TINY).learn(10), lambda: evaluate("random", Forgetful, episodes=1)):
        with pytest.raises(EnvError, match="gave an action mask before, and none now; give info"):
            use()


class Pictures(MaskedChain):
    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(0, 255, (16, 16), np.uint8)

    def see(self, x):
        return np.full((16, 16), 100 * x, np.uint8)


def test_hardening_on_an_environment_with_masks_is_refused_in_one_sentence():
    with pytest.raises(BadInput, match="has action masks, and a student cannot be taught"):
        harden(DSAC(Pictures(), hidden=8, replay_size=64), Pictures, updates=10)
