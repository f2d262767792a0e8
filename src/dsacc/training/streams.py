"""The random streams of a run, and how actions are drawn from one."""

from dataclasses import dataclass

import numpy as np
import torch

from dsacc.system.types import Array

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
    def from_seed(cls, seed: int, envs: int = 1) -> "Streams":
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


def sample_actions(logits: Array, rng: np.random.Generator) -> Array:
    """Draws from softmax(logits) by the Gumbel-max trick. [..., A] -> [...]."""
    out: Array = np.argmax(logits - np.log(-np.log(rng.random(logits.shape))), axis=-1)
    return out
