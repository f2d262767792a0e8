"""benchmarks/critics.py: the critics choose by their own Q, and a test of them is a test of the same game."""

import numpy as np
import pytest
import torch
from helpers.scripts import script

from dsacc import DSAC

SMALL = {"encoder": "small", "hidden": 16, "batch_size": 4, "replay_size": 200, "random_steps": 20}


@pytest.fixture(scope="module")
def critics():
    return script("benchmarks/critics.py")


def test_each_player_follows_the_target_critics_and_every_way_to_play_gets_a_score(critics):
    model = DSAC("dsacc/Catch-v0", "mean", "efficient", 0, **SMALL).learn(30)
    seen = np.random.default_rng(0).integers(0, 255, (5, *model.observation_space.shape), dtype=np.uint8)
    with torch.no_grad():
        q1, q2 = model.learner.target_critics(model.learner.scaled(torch.from_numpy(model.observations.encode(seen))))
    best = ((q1 + q2) / 2).argmax(dim=1).tolist()
    ways = critics.players(model, 0)
    assert ways["largest Q"](seen).tolist() == best
    drawn = [ways["softmax(Q / alpha)"](seen).tolist() for _ in range(200)]
    share = np.mean([[a == b for a, b in zip(actions, best, strict=True)] for actions in drawn])
    pi = torch.softmax((q1 + q2) / 2 / model.learner.alpha, dim=1).max(dim=1).values
    assert abs(share - float(pi.mean())) < 0.05
    found = critics.scores(model, 2, 0)
    assert list(found) == ["actor, sampled", "actor, greedy", *ways]
    assert all(-1 <= score <= 1 for score in found.values())
