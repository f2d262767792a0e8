"""Atari: one preprocessing path, for training, for evaluation and for every shift.

Built on `ale_py.ALEInterface`, whose state can be saved, and not on its vector environment: that one's cannot, and it
knows neither FIRE after a lost life nor a place between the screen and the grey picture, where weather belongs.
"""

import re
from collections.abc import Callable
from typing import Any

import cv2
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.errors import EnvError
from dsacc.system.types import Array

TEST_FRAMES = 18_000  # emulator frames of a test game, the paper's limit: 4,500 agent steps
SIZE = 84  # pixels a side of what the network sees
NOOP, FIRE = 0, 1  # the emulator's numbers of these two actions


class Atari(gym.Env[Array, np.int64]):
    """One game. Observation: the last `stack` pictures, [stack, 84, 84] uint8, newest last. Reward: the raw score.

    - An agent step holds its action for `frame_skip` frames. The picture is the maximum of the last two screens, as
      sprites flicker, in grey, shrunk to 84x84.
    - A game starts with 1 to `noops` no-ops. Where the game's actions have FIRE, it is pressed for one agent step's
      frames at the start and after each lost life: else a greedy agent may wait for ever.
    - A lost life is told in `info["life_lost"]` and does not end the episode; the trainer makes of it what its settings
      say.
    - A game is cut off (truncated) after `max_frames` frames of agent steps.
    - `lens`, where one is set, changes each screen before it is made grey and small: the place for weather.
    - `sticky` repeats the previous action instead, frame by frame, with this probability. The draw is ours and not the
      emulator's, whose saved state forgets the action before.

    >>> env = Atari("Breakout")
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape, env.action_space.n, info["lives"]
    ((4, 84, 84), np.int64(4), 5)
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - Gymnasium's own attribute

    def __init__(
        self,
        game: str,
        *,
        frame_skip: int = 4,
        stack: int = 4,
        noops: int = 30,
        fire: bool = True,
        sticky: float = 0.0,
        full_actions: bool = False,
        max_frames: int = 108_000,
        render_mode: str | None = None,
    ) -> None:
        rom = find_game(game)
        if rom is None:
            raise EnvError(f"there is no Atari game {game!r}")
        if frame_skip < 1 or stack < 1 or noops < 0 or max_frames < 1 or not 0 <= sticky < 1:
            raise EnvError("Atari needs frame_skip, stack and max_frames of 1 or more, noops >= 0 and 0 <= sticky < 1")
        self.name, self.render_mode = display_name(rom), render_mode
        self.frame_skip, self.noops, self.sticky = frame_skip, noops, sticky
        self.frame_stack = stack  # says that observations are a sliding window over pictures
        self.max_steps = max(max_frames // frame_skip, 1)
        self.test_steps = max(TEST_FRAMES // frame_skip, 1)
        self.ale = _emulator(rom)
        self.actions = self.ale.getLegalActionSet() if full_actions else self.ale.getMinimalActionSet()
        self._noop = next(a for a in self.actions if a.value == NOOP)
        self._fire = next((a for a in self.actions if a.value == FIRE), None) if fire else None
        self.action_space = spaces.Discrete(len(self.actions))
        self.observation_space = spaces.Box(0, 255, (stack, SIZE, SIZE), np.uint8)
        height, width = self.ale.getScreenDims()
        self.lens: Callable[[Array], Array] | None = None
        self._screens = np.zeros((2, height, width, 3), np.uint8)  # the last two of the frames that an action was held
        self._seen: Array | None = None  # the screen through the lens, where there was one
        self._stack = np.zeros((stack, SIZE, SIZE), np.uint8)
        self._lives = self._steps = 0
        self._last_action: Any = self._noop

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.ale.reset_game()
        self._steps, self._last_action = 0, self._noop
        for _ in range(int(self.np_random.integers(1, self.noops + 1)) if self.noops else 0):
            self.ale.act(self._noop)
            if self.ale.game_over():
                self.ale.reset_game()
        self.ale.getScreenRGB(self._screens[1])
        self._screens[0] = self._screens[1]
        if self._fire is not None:
            self._hold(self._fire)
            if self.ale.game_over():
                self.ale.reset_game()
        self._lives = self.ale.lives()
        self._stack[:] = self._see()
        return self._stack.copy(), {"lives": self._lives, "life_lost": False}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        reward = self._hold(self.actions[int(action)])
        lost = self.ale.lives() < self._lives
        if lost and self._fire is not None and not self.ale.game_over():
            reward += self._hold(self._fire)
        self._lives = self.ale.lives()
        self._steps += 1
        self._stack[:-1] = self._stack[1:]
        self._stack[-1] = self._see()
        over = self.ale.game_over()
        truncated = not over and self._steps >= self.max_steps
        return self._stack.copy(), reward, over, truncated, {"lives": self._lives, "life_lost": lost}

    def _see(self) -> Array:
        """The new picture for the stack. Looks through the lens once, whoever asks for the screen afterwards."""
        self._seen = None
        self._seen = self.lens(self.screen()) if self.lens is not None else None
        return to_grey(self.screen())

    def screen(self) -> Array:
        """The picture before it is made grey and small: the maximum of the last two screens, [210, 160, 3], through the
        lens."""
        out: Array = np.maximum(self._screens[0], self._screens[1]) if self._seen is None else self._seen.copy()
        return out

    def get_action_meanings(self) -> list[str]:
        """`NOOP`, `FIRE`, `RIGHT`, ...: the emulator's names, by action."""
        return [action.name for action in self.actions]

    def render(self) -> Array:
        return self.screen()

    def _hold(self, action: Any) -> float:
        """Hold an action for `frame_skip` frames, or until the game is over; the reward of them all."""
        reward = 0.0
        for k in range(self.frame_skip):
            if not (self.sticky and self.np_random.random() < self.sticky):
                self._last_action = action
            reward += self.ale.act(self._last_action)
            over = self.ale.game_over()
            if over or k >= self.frame_skip - 2:
                self._screens[0] = self._screens[1]
                self.ale.getScreenRGB(self._screens[1])
            if over:
                break
        return float(reward)

    # --- saving ---

    def state(self) -> dict[str, Any]:
        """Everything the next step depends on: the same actions from here give the same pictures, rewards and ends."""
        seen = {} if self._seen is None else {"seen": self._seen.copy()}
        return {
            "emulator": np.frombuffer(self.ale.cloneState(include_rng=True).__getstate__(), np.uint8).copy(),
            "screens": self._screens.copy(),
            "stack": self._stack.copy(),
            "lives": self._lives,
            "steps": self._steps,
            "last_action": self._last_action.value,
            "np_random": self.np_random.bit_generator.state,
            **seen,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `state` gave. The caller answers for its integrity: a damaged one is not noticed."""
        import ale_py

        saved = ale_py.ALEState.__new__(ale_py.ALEState)
        saved.__setstate__(state["emulator"].tobytes())
        self.ale.restoreState(saved)
        self._screens[:], self._stack[:] = state["screens"], state["stack"]
        self._seen = state.get("seen")
        self._lives, self._steps = int(state["lives"]), int(state["steps"])
        self._last_action = next(a for a in self.actions if a.value == int(state["last_action"]))
        self.np_random.bit_generator.state = state["np_random"]


def to_grey(screen: Array) -> Array:
    """A colour screen as the network sees it: grey, 84x84 by area. [H, W, 3] -> [84, 84]."""
    grey = cv2.cvtColor(screen, cv2.COLOR_RGB2GRAY)
    out: Array = cv2.resize(grey, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    return out


def _emulator(rom: str) -> Any:
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("random_seed", 0)  # plays no part without the emulator's own sticky actions
    path = ale_py.roms.get_rom_path(rom)
    if path is None:
        raise EnvError(f"ale-py has no ROM of {rom}")
    ale.loadROM(path)
    return ale


# --- names -----------------------------------------------------------------------------------------------------------

_ID = re.compile(r"(?:ALE/)?(\w+?)(?:NoFrameskip)?(?:-v\d+)?")
_TWO_PLAYERS = {"combat", "joust", "maze_craze", "warlords"}


def game_names() -> dict[str, str]:
    """`{"breakout": "breakout", "mspacman": "ms_pacman", ...}`; empty where ale-py is not installed."""
    try:
        from ale_py import roms
    except ImportError:
        return {}
    return {rom.replace("_", ""): rom for rom in roms.get_all_rom_ids() if rom not in _TWO_PLAYERS}


def find_game(name: str) -> str | None:
    """The ROM for a name as people write it: `Breakout`, `ms_pacman`, `ALE/MsPacman-v5`, `BreakoutNoFrameskip-v4`."""
    match = _ID.fullmatch(name.strip())
    return game_names().get(match[1].replace("_", "").lower()) if match else None


def display_name(rom: str) -> str:
    """`ms_pacman` is MsPacman."""
    return rom.title().replace("_", "")
