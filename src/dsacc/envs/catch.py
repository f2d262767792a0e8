"""Catch: a ball falls, a paddle moves. The smallest game that must be learned from pixels."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.errors import EnvError

CELLS = 7  # columns and rows
PIXELS = 12  # per side of a cell: the screen is 84 x 84
PADDLE = 2  # cells wide
BEST_SCORE = 1.0  # per ball; every column can be reached in time
RANDOM_SCORE = 2 * PADDLE / CELLS - 1  # per ball, for any player that does not look: PADDLE of the CELLS columns catch

_SKY, _GROUND, _BALL, _PADDLE = (24, 32, 64), (44, 62, 96), (255, 176, 32), (236, 240, 248)


class Catch(gym.Env[np.ndarray[Any, Any], np.int64]):
    """Catch a falling ball. Observation: an RGB screen, 84 x 84 x 3 uint8. Actions: left, stay, right.

    The ball starts in a random column of the top row and falls one row per step. The paddle starts in the middle of the
    bottom row and moves one cell per step. When the ball reaches the bottom row, the reward is +1 if the paddle is
    under it and -1 if not, and the next ball starts. The episode ends after `balls` balls.

    >>> env = Catch()
    >>> observation, _ = env.reset(seed=0)
    >>> observation.shape
    (84, 84, 3)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - Gymnasium's own attribute

    def __init__(self, balls: int = 1, render_mode: str | None = None) -> None:
        self.observation_space = spaces.Box(0, 255, (CELLS * PIXELS, CELLS * PIXELS, 3), np.uint8)
        self.action_space = spaces.Discrete(3)
        self.balls, self.render_mode = balls, render_mode
        self._background = np.empty(self.observation_space.shape, np.uint8)
        self._background[:] = _SKY
        self._background[-PIXELS:] = _GROUND
        offsets = np.arange(PIXELS) - (PIXELS - 1) / 2
        self._disc = offsets[:, None] ** 2 + offsets[None] ** 2 <= (PIXELS / 2) ** 2

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self._left = self.balls
        self._paddle = (CELLS - PADDLE) // 2
        self._drop()
        return self._screen(), {}

    def _drop(self) -> None:
        self._row, self._column = 0, int(self.np_random.integers(CELLS))

    def step(self, action: Any) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        self._paddle = int(np.clip(self._paddle + int(action) - 1, 0, CELLS - PADDLE))
        self._row += 1
        reward = 0.0
        if self._row == CELLS - 1:
            reward = 1.0 if self._paddle <= self._column < self._paddle + PADDLE else -1.0
            self._left -= 1
        observation = self._screen()
        if reward and self._left:
            self._drop()
            observation = self._screen()
        return observation, reward, self._left == 0, False, {}

    def _screen(self) -> np.ndarray[Any, Any]:
        screen = self._background.copy()
        x = self._paddle * PIXELS
        screen[-PIXELS + 3 : -3, x : x + PADDLE * PIXELS] = _PADDLE
        y, x = self._row * PIXELS, self._column * PIXELS
        screen[y : y + PIXELS, x : x + PIXELS][self._disc] = _BALL
        return screen

    def get_action_meanings(self) -> list[str]:
        """What each action does."""
        return ["left", "stay", "right"]

    def render(self) -> np.ndarray[Any, Any]:
        return self._screen()

    # --- saving ---

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, after a reset."""
        return {
            "left": self._left,
            "paddle": self._paddle,
            "row": self._row,
            "column": self._column,
            "np_random": self.np_random.bit_generator.state,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        left, paddle, row, column = (int(state[name]) for name in ("left", "paddle", "row", "column"))
        if not (0 <= left <= self.balls and 0 <= paddle <= CELLS - PADDLE and 0 <= row < CELLS and 0 <= column < CELLS):
            raise EnvError(f"this state does not belong to a game of Catch with {self.balls} balls")
        self._left, self._paddle, self._row, self._column = left, paddle, row, column
        self.np_random.bit_generator.state = state["np_random"]
