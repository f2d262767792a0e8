"""Atari games with the same preprocessing for training, evaluation and every shift.

Built on `ale_py.ALEInterface`, whose state can be saved. The state of ale_py's vector environment cannot. That one also
does not press FIRE after a lost life, and cannot change the screen before it is made grey, where weather belongs.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.errors import EnvError
from dsacc.system.extras import how_to_install
from dsacc.system.imports import Later
from dsacc.system.types import Array

if TYPE_CHECKING:
    import cv2
else:
    cv2 = Later("cv2")  # a third of a second, which vectors do not need

TEST_FRAMES = 18_000  # emulator frames per test game, the paper's limit: 4,500 agent steps
SIZE = 84  # pixels per side of what the network sees
NOOP, FIRE = 0, 1  # the emulator's numbers for these two actions


class Atari(gym.Env[Array, np.int64]):
    """One game. Observation: the last `stack` pictures, [stack, 84, 84] uint8, newest last. Reward: the raw score.

    - An agent step holds its action for `frame_skip` frames. The picture is the maximum of the last two screens, since
      sprites flicker. It is made grey and shrunk to 84x84.
    - A game starts with 1 to `noops` no-ops. If the game has the action FIRE, it is held for one agent step's frames at
      the start and after each lost life. Otherwise a greedy agent might wait forever.
    - `info["life_lost"]` reports a lost life. It does not end the episode here; the trainer's settings decide what it
      means.
    - A game is truncated after `max_frames` frames of agent steps.
    - `lens`, if set, changes each screen before it is made grey and small. Weather uses it.
    - `sticky` is the probability per frame that the previous action is repeated instead. We draw it ourselves, because
      the emulator's saved state does not include the previous action.

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
            absent = f": its emulator is not installed; `{how_to_install('atari')}` installs it"
            missing = "" if game_names() else absent
            raise EnvError(f"there is no Atari game {game!r}{missing}")
        if frame_skip < 1 or stack < 1 or noops < 0 or max_frames < 1 or not 0 <= sticky < 1:
            raise EnvError(
                "frame_skip, stack and max_frames must be at least 1, noops at least 0, and sticky from 0 to below 1"
            )
        given: dict[str, Any] = {"frame_skip": frame_skip, "stack": stack, "noops": noops, "fire": fire}
        given |= {"sticky": sticky, "full_actions": full_actions, "max_frames": max_frames}
        usual: dict[str, Any] = Atari.__init__.__kwdefaults__ or {}
        self.settings = {name: value for name, value in given.items() if value != usual[name]}
        self.name, self.render_mode = display_name(rom), render_mode
        self.frame_skip, self.noops, self.sticky = frame_skip, noops, sticky
        self.frame_stack = stack  # tells others that observations are a sliding window over pictures
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
        self._screens = np.zeros((2, height, width, 3), np.uint8)  # of the last two frames of an agent step
        self._seen: Array | None = None  # the screen through the lens, if there is one
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
        """The new picture for the stack. The lens is applied once; later calls of `screen` return its result."""
        self._seen = None
        self._seen = self.lens(self.screen()) if self.lens is not None else None
        return to_grey(self.screen())

    def screen(self) -> Array:
        """The maximum of the last two screens, through the lens, before it is made grey and small. [210, 160, 3]."""
        out: Array = np.maximum(self._screens[0], self._screens[1]) if self._seen is None else self._seen.copy()
        return out

    def get_action_meanings(self) -> list[str]:
        """The emulator's name of each action: `NOOP`, `FIRE`, `RIGHT`, ..."""
        return [action.name for action in self.actions]

    def render(self) -> Array:
        return self.screen()

    def _hold(self, action: Any) -> float:
        """Hold an action for `frame_skip` frames or until the game is over. Returns the total reward."""
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
        """Everything that the next step depends on: the same actions give the same pictures, rewards and ends."""
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
        """Continue from what `state` returned. The caller must check its integrity: damage is not noticed here."""
        import ale_py

        saved = ale_py.ALEState.__new__(ale_py.ALEState)
        saved.__setstate__(state["emulator"].tobytes())
        self.ale.restoreState(saved)
        self._screens[:], self._stack[:] = state["screens"], state["stack"]
        self._seen = state.get("seen")
        self._lives, self._steps = int(state["lives"]), int(state["steps"])
        self._last_action = next(a for a in self.actions if a.value == int(state["last_action"]))
        self.np_random.bit_generator.state = state["np_random"]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Atari":
        """Another emulator in the same state; an emulator cannot be copied as it is."""
        made = Atari(self.name, render_mode=self.render_mode, **self.settings)
        made.load_state(self.state())
        return made


def to_grey(screen: Array) -> Array:
    """A colour screen as the network sees it: grey, 84x84, averaged over areas. [H, W, 3] -> [84, 84]."""
    grey = cv2.cvtColor(screen, cv2.COLOR_RGB2GRAY)
    out: Array = cv2.resize(grey, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    return out


def _emulator(rom: str) -> Any:
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("random_seed", 0)  # has no effect without the emulator's own sticky actions
    path = ale_py.roms.get_rom_path(rom)
    if path is None:
        raise EnvError(f"ale-py has no ROM for the game {rom}")
    ale.loadROM(path)
    return ale


# --- names -----------------------------------------------------------------------------------------------------------

_ID = re.compile(r"(?:ALE/)?(\w+?)(?:NoFrameskip)?(?:-v\d+)?")
_TWO_PLAYERS = {"combat", "joust", "maze_craze", "warlords"}


def game_names() -> dict[str, str]:
    """`{"breakout": "breakout", "mspacman": "ms_pacman", ...}`; empty if ale-py is not installed."""
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
    """`ms_pacman` becomes `MsPacman`."""
    return rom.title().replace("_", "")
