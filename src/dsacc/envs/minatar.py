"""MinAtar's five games, as colour pictures: `minatar/Breakout` and so on.

The games are those of the package MinAtar (Young and Tian, 2019). We load the module of a game alone, and not the
package around it, which imports matplotlib and seaborn for a window that nobody here opens. A game needs NumPy only.
"""

import copy
from collections.abc import Callable, Iterable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.envs.minatar_colours import BLACK, COLOURS
from dsacc.errors import EnvError, first_line
from dsacc.system.extras import how_to_install
from dsacc.system.imports import Later, load_alone
from dsacc.system.types import Array

if TYPE_CHECKING:
    import cv2
else:
    cv2 = Later("cv2")  # a third of a second; only weather needs it here

CELLS = 10  # columns and rows
ON_SCREEN = 16  # pixels per side of a cell on the screen, on which weather is drawn: 160 x 160
SEEN = 4  # and in what the agent sees: 40 x 40
NOOP = 0  # MinAtar's number of the action that does nothing
_MEANINGS = {"n": "NOOP", "l": "LEFT", "u": "UP", "r": "RIGHT", "d": "DOWN", "f": "FIRE"}
_CONSTANT = ("channels", "action_map", "ramping", "random")  # attributes of a game that no step changes


class MinAtar(gym.Env[Array, np.int64]):
    """One game. Observation: a colour picture, 40 x 40 x 3 uint8, four pixels per side of a cell. Reward: the score.

    - `game` is asterix, breakout, freeway, seaquest or space_invaders. Rules, rewards and ends are MinAtar's own.
    - `sticky` is the probability per step that the previous action is repeated instead. A game starts with none: what
      the last one ended with is forgotten, so that a seed alone decides a game.
    - `ramping`: a game becomes harder as it goes on (Asterix, Seaquest, SpaceInvaders).
    - `full_actions` offers all six actions. Otherwise there are those that have an effect in the game.
    - Each kind of thing has its colour on black (`dsacc.envs.minatar_colours`). Where several are in one cell, the one
      that stands first there is shown.
    - `lens`, if set, changes each screen, which has 16 pixels per side of a cell, before it is shrunk to the
      observation. Weather uses it.

    >>> env = MinAtar("breakout")
    >>> observation, _ = env.reset(seed=0)
    >>> observation.shape, env.get_action_meanings()
    ((40, 40, 3), ['NOOP', 'LEFT', 'RIGHT'])
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - Gymnasium's own attribute

    def __init__(
        self,
        game: str,
        *,
        sticky: float = 0.1,
        ramping: bool = True,
        full_actions: bool = False,
        render_mode: str | None = None,
    ) -> None:
        if game not in COLOURS:
            raise EnvError(f"MinAtar has no game {game!r}; it has {', '.join(COLOURS)}")
        if not 0 <= sticky < 1:
            raise EnvError(f"sticky is a probability from 0 to below 1, not {sticky!r}")
        self.game, self.sticky, self.render_mode = game, sticky, render_mode
        self._game = _module(game).Env(ramping=ramping)
        self.actions = list(range(len(self._game.action_map))) if full_actions else self._game.minimal_action_set()
        self.action_space = spaces.Discrete(len(self.actions))
        self.observation_space = spaces.Box(0, 255, (CELLS * SEEN, CELLS * SEEN, 3), np.uint8)
        self.lens: Callable[[Array], Array] | None = None
        self._channels = _order(game, self._game.channels)
        self._palette = np.array([*COLOURS[game].values(), BLACK], np.uint8)
        self._last_action = NOOP
        self._seen: Array | None = None  # the screen through the lens, if there is one

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._draws()
        self._game.reset()
        self._last_action = NOOP
        return self._see(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if self._draws().random_sample() >= self.sticky:
            self._last_action = self.actions[int(action)]
        reward, over = self._game.act(self._last_action)
        return self._see(), float(reward), bool(over), False, {}

    def _draws(self) -> np.random.RandomState:
        """Let the game draw from Gymnasium's generator, whatever that is by now, through the methods that it knows. So
        one random stream decides a game, and it is saved with everything else."""
        self._game.random = random = np.random.RandomState(self.np_random.bit_generator)
        return random

    def _see(self) -> Array:
        """The new observation. The lens is applied once; later calls of `screen` return its result."""
        self._seen = None
        if self.lens is None:
            return self._picture(SEEN)
        self._seen = self.lens(self.screen())
        side = CELLS * SEEN
        small: Array = cv2.resize(self._seen, (side, side), interpolation=cv2.INTER_AREA)
        return small

    def screen(self) -> Array:
        """The game at 16 pixels per side of a cell, through the lens. [160, 160, 3]."""
        return self._picture(ON_SCREEN) if self._seen is None else self._seen.copy()

    def _picture(self, pixels: int) -> Array:
        there = np.ones((CELLS, CELLS, len(self._palette)), bool)  # black is everywhere, below everything else
        there[..., :-1] = self._game.state()[..., self._channels]
        colours: Array = self._palette[there.argmax(-1)]
        return colours.repeat(pixels, 0).repeat(pixels, 1)

    def get_action_meanings(self) -> list[str]:
        """What each action does: `NOOP`, `LEFT`, `FIRE`, ..."""
        return [_MEANINGS[self._game.action_map[action]] for action in self.actions]

    def render(self) -> Array:
        return self.screen()

    # --- saving ---

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        seen = {} if self._seen is None else {"seen": self._seen.copy()}
        return {
            "game": copy.deepcopy(self._changing()),
            "last_action": self._last_action,
            "np_random": self.np_random.bit_generator.state,
            **seen,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        game, last = state["game"], int(state["last_action"])
        if game.keys() != self._changing().keys() or last not in range(len(self._game.action_map)):
            raise EnvError(f"this state does not belong to MinAtar's {self.game}")
        vars(self._game).update(copy.deepcopy(game))
        try:
            self._game.state()
        except (IndexError, TypeError, ValueError) as error:
            raise EnvError(f"this state does not belong to MinAtar's {self.game} ({first_line(error)})") from error
        self._last_action, self._seen = last, state.get("seen")
        self.np_random.bit_generator.state = state["np_random"]

    def _changing(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self._game).items() if name not in _CONSTANT}


@cache
def _module(game: str) -> ModuleType:
    module = load_alone("minatar", "environments", f"{game}.py")
    if module is None:
        raise EnvError(f"MinAtar's games are not installed; `{how_to_install('minatar')}` installs them")
    return module


def _order(game: str, channels: dict[str, int]) -> list[int]:
    """The game's channels in the order of its colours, the topmost first."""
    if channels.keys() != COLOURS[game].keys():
        raise EnvError(
            f"this version of MinAtar has other things in {game} than dsacc has colours for: "
            f"{_listed(channels.keys() ^ COLOURS[game].keys())}; use MinAtar 1.0.15"
        )
    return [channels[name] for name in COLOURS[game]]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
