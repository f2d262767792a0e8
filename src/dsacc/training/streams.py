"""The random streams of a run, and how actions are drawn from one."""

from dataclasses import dataclass

import numpy as np
import torch

from dsacc.system.types import Array

LOWEST = -1e300  # a score; minus infinity means: not allowed
GENERATORS = ("actions", "batches", "noise", "augmentation")  # the streams that are drawn from during a run


@dataclass
class Streams:
    """Separate random streams, so that drawing from one never moves another."""

    actions: np.random.Generator
    batches: np.random.Generator
    noise: np.random.Generator
    augmentation: np.random.Generator
    env_seeds: list[int]
    weights: torch.Generator

    @classmethod
    def from_seed(cls, seed: int, envs: int) -> "Streams":
        """All streams of a run, from its one seed."""
        actions, batches, noise, env, weights, augmentation = np.random.SeedSequence(seed).spawn(6)
        return cls(
            np.random.default_rng(actions),
            np.random.default_rng(batches),
            np.random.default_rng(noise),
            np.random.default_rng(augmentation),
            [int(x) for x in env.generate_state(envs)],
            torch.Generator().manual_seed(int(weights.generate_state(1, np.uint64)[0]) >> 1),
        )


def reset_weights(seed: int, step: int) -> torch.Generator:
    """Where the new weights of a reset come from: the run's seed and the agent step alone, so that a run that continues
    draws what it would have drawn."""
    drawn = np.random.SeedSequence((seed, step)).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(drawn) >> 1)


def sample_actions(logits: Array, rng: np.random.Generator, mask: Array | None = None) -> Array:
    """Draws from softmax(logits), among the actions that `mask` allows, by the Gumbel-max trick. [..., A] -> [...]."""
    return best_actions(logits - np.log(-np.log(rng.random(logits.shape))), mask)


def best_actions(scores: Array, mask: Array | None = None) -> Array:
    """The action with the highest score, among those that `mask` allows. [..., A] -> [...]."""
    if mask is not None:  # whatever the scores are, one that is allowed is above all that are not
        scores = np.where(mask, np.maximum(scores, LOWEST), -np.inf)
    out: Array = np.argmax(scores, axis=-1)
    return out


def random_actions(mask_BA: Array, rng: np.random.Generator) -> Array:
    """One of the allowed actions of each row, each with the same probability. [B, A] -> [B]."""
    pick_B = rng.integers(mask_BA.sum(axis=1))
    out: Array = np.array([np.flatnonzero(row_A)[k] for row_A, k in zip(mask_BA, pick_B, strict=True)])
    return out
