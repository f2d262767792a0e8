"""An environment of numbered pictures, and a diary that stores every transition whole."""

from collections import deque

import numpy as np
from hypothesis import strategies as st

from dsacc.agent.observation import ObservationSpec
from dsacc.replay import Replay

HEIGHT, WIDTH = 5, 6
ENDS = st.lists(st.sampled_from(["goes on"] * 8 + ["terminated", "truncated", "life lost"]), min_size=3, max_size=70)


def picture(number: int, channels: int) -> np.ndarray:
    """A picture that tells which one it is."""
    out = np.random.default_rng(number).integers(0, 256, (channels, HEIGHT, WIDTH), dtype=np.uint8)
    out[0, 0, :2] = number // 256, number % 256
    return out


def number_of(observation: np.ndarray, channels: int) -> int:
    newest = observation[-channels]
    return int(newest[0, 0]) * 256 + int(newest[0, 1])


class Player:
    """One environment that shows numbered pictures, stacked; and its diary, which keeps everything."""

    def __init__(self, stack: int, channels: int, first: int) -> None:
        self.stack, self.channels, self.number = stack, channels, first
        self.diary: list[dict] = []
        self.reset()

    def reset(self) -> None:
        self.pictures = deque([self._next()] * self.stack, maxlen=self.stack)

    def _next(self) -> np.ndarray:
        self.number += 1
        return picture(self.number, self.channels)

    def seen(self) -> np.ndarray:
        return np.concatenate(list(self.pictures))

    def step(self, replay: Replay, env: int, end: str) -> None:
        before, action, reward = self.seen(), self.number % 7, float(self.number)
        self.pictures.append(self._next())
        after = self.seen()
        terminated, truncated = end in ("terminated", "life lost"), end == "truncated"
        goes_on = end in ("goes on", "life lost")
        replay.add(before, action, reward, terminated, truncated, after, reward / 10, goes_on=goes_on, env=env)
        self.diary.append({"seen": before, "action": action, "reward": reward, "end": end, "next": after})
        if not goes_on:
            self.reset()


def expected(diary: list[dict], n: int, channels: int) -> dict[int, dict]:
    """The right n-step transition for each step of a diary, by the number of its newest picture."""
    out = {}
    for i, start in enumerate(diary):
        rewards = []
        for step in diary[i : i + n]:
            rewards.append(step["reward"])
            if step["end"] == "goes on" and step is diary[-1]:
                break  # its next state is not stored before the next step
            if step["end"] != "goes on" or len(rewards) == n:
                out[number_of(start["seen"], channels)] = {
                    "seen": start["seen"],
                    "action": start["action"],
                    "rewards": rewards,
                    "terminated": step["end"] in ("terminated", "life lost"),
                    "next": step["next"],
                }
                break
    return out


def play(ends: list[str], *, stack: int, channels: int, envs: int, n: int, capacity: int, compression: str):
    spec = ObservationSpec("image", (stack * channels, HEIGHT, WIDTH))
    replay = Replay(capacity, spec, n, stack=stack, envs=envs, compression=compression)
    players = [Player(stack, channels, 10_000 * e) for e in range(envs)]
    for i, end in enumerate(ends * envs):
        players[i % envs].step(replay, i % envs, end)
    right = {}
    for player in players:
        right |= expected(player.diary, n, channels)
    return replay, right
