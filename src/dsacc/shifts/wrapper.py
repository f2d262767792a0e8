"""`Shift`: a wrapper that changes what an environment shows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from dsacc.envs.pictures import float_pictures
from dsacc.envs.protocol import HasScreen
from dsacc.envs.spaces import picture_part
from dsacc.errors import ConfigError, RunError
from dsacc.shifts.bank import SIZE, UNKEPT, bank
from dsacc.shifts.kinds import Severity, as_level, find_kind
from dsacc.shifts.layout import Layout, is_picture, shift_vector, unit_scale
from dsacc.shifts.schedule import Schedule
from dsacc.system.types import WHERE, Array, Mode, Where

Env = gym.Env[Any, Any]


class Shift(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Changes what the agent sees: weather, light and noise for pictures, noise and faults for vectors.

    - `kind`: one of `dsacc.shifts.names()`, or one of `names("vector")` for observations of floats.
    - `severity`: `paper` (the ranges of the paper's tool), or 1 to 5.
    - `mode`: `independent` makes a new draw per frame, `frozen` one per episode. `falling` makes one per episode, and
      what falls or drifts moves from frame to frame.
    - `seed` and the seed of `reset` together fix the weather, whatever the agent does. A reset without a seed moves on
      to the next weather.
    - `where`: `screen` changes the full colour screen before it is made small. That needs an environment with a `lens`,
      such as our Atari and MinAtar, where it is the default. `observation` changes what the environment returns.
    - `channels`: 1 or 3, how many channels of an observation make one picture, if their number does not tell.

    In a Dict of observations the picture is changed, of which there must be one, and everything else stays.

    Pictures have at least 16 pixels per side: [H, W], [H, W, C], [C, H, W] or a stack of these, newest last. They are
    uint8, or floats with the bounds 0 and 1 or 0 and 255, which come out rounded to 256 levels.
    In a stack that slides by one per step, each picture keeps its weather. In any other stack, equal pictures share it.

    `render()` shows what the agent sees, unless the environment draws into its own window (`human`).

    >>> import dsacc
    >>> env = Shift(dsacc.make_env("dsacc/Catch-v0"), "gaussian_noise", severity=3, seed=1)
    >>> observation, _ = env.reset(seed=0)
    >>> observation.shape, int(observation.std()) > int(env.env.reset(seed=0)[0].std())
    ((84, 84, 3), True)
    """

    def __init__(
        self,
        env: Env,
        kind: str,
        severity: Severity | str = "paper",
        mode: Mode | str = "independent",
        seed: int = 0,
        *,
        where: Where | str | None = None,
        channels: int | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self, kind=kind, severity=severity, mode=mode, seed=seed, where=where, channels=channels
        )
        super().__init__(env)
        base: Any = env.unwrapped
        if where is None:
            where = "screen" if isinstance(base, HasScreen) else "observation"
        if where not in WHERE:
            raise ConfigError(f"where must be 'screen' or 'observation', not {where!r}")
        if where == "screen" and not isinstance(base, HasScreen):
            raise ConfigError(f"{type(base).__name__} gives no access to its screen; use where='observation'")
        self.where = where
        self._layout: Layout | None = None
        self._raw = self._shifted = np.zeros(0, np.uint8)  # pictures of the last observation, as given and as shown
        size = SIZE
        self._key = picture_part(env.observation_space)  # of the picture in a Dict
        shown: Any = env.observation_space
        if self._key is not None:
            shown = shown[self._key]
        self._floats = float_pictures(shown)
        if where == "screen":
            on_picture, shape = True, base.screen().shape
        elif on_picture := is_picture(shown):
            self._layout = Layout(tuple(shown.shape or ()), channels)
            shape = self._layout.pictures[1:]
        else:
            self._space = cast("spaces.Box[Any]", shown)
            self._scale = unit_scale(self._space)
            shape, size = self._scale.shape, UNKEPT
        if channels is not None and self._layout is None:
            raise ConfigError("channels only applies to pictures in an observation; leave it out here")
        found, level = find_kind(kind, "picture" if on_picture else "vector"), as_level(severity)
        self._schedule = Schedule(bank(found, level, shape, seed, size), mode, seed)
        self._settings = {"kind": kind, "severity": level or "paper", "mode": mode, "seed": int(seed), "where": where}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._schedule.begin(seed)
        self._raw = self._raw[:0]
        with self._through_the_lens():
            observation, info = self.env.reset(seed=seed, options=options)
        return self._show(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        with self._through_the_lens():
            observation, reward, terminated, truncated, info = self.env.step(action)
        return self._show(observation), reward, terminated, truncated, info

    def render(self) -> Any:
        if self._layout is None or self.env.render_mode not in (None, "rgb_array"):
            return self.env.render()
        if not len(self._raw):
            raise gym.error.ResetNeeded("there is nothing to render yet; call reset() first")
        return np.broadcast_to(self._shifted[-1], (*self._shifted.shape[1:3], 3)).copy()

    @contextmanager
    def _through_the_lens(self) -> Iterator[None]:
        """Set the environment's lens to our change for one call. A shift around this one is applied after it."""
        if self.where != "screen":
            yield
            return
        base: Any = self.env.unwrapped
        outer = base.lens

        def lens(screen: Array) -> Array:
            seen = self._schedule.apply(self._schedule.next()[0], screen)
            return seen if outer is None else outer(seen)

        base.lens = lens
        try:
            yield
        finally:
            base.lens = outer

    def _show(self, observation: Any) -> Any:
        if self.where == "screen":
            return observation
        if self._key is not None:
            return {**observation, self._key: self._changed(observation[self._key])}
        return self._changed(observation)

    def _changed(self, observation: Any) -> Any:
        if self._layout is None:
            member, age = self._schedule.next()[0]
            change = self._schedule.bank[member]
            return shift_vector(lambda unit: change(unit, age), observation, self._space, self._scale)
        raw = self._layout.split(observation if self._floats is None else self._floats.to_bytes(observation))
        picks = self._schedule.next(len(raw))
        shifted = np.empty_like(raw)
        if len(self._raw) and np.array_equal(raw[:-1], self._raw[1:]):  # all of them: one still picture proves nothing
            shifted[:-1] = self._shifted[1:]
            shifted[-1] = self._schedule.apply(picks[-1], raw[-1])
        else:
            done: dict[bytes, Array] = {}
            for k in reversed(range(len(raw))):
                key = raw[k].tobytes()
                if key not in done:
                    done[key] = self._schedule.apply(picks[k], raw[k])
                shifted[k] = done[key]
        self._raw, self._shifted = raw, shifted
        shown = self._layout.join(shifted)
        return shown if self._floats is None else self._floats.from_bytes(shown)

    # --- saving ---

    def state(self) -> dict[str, Any]:
        """Everything that the next pictures depend on, apart from the environment's own state."""
        pictures = {"raw": self._raw.copy(), "shifted": self._shifted.copy()}
        return {"settings": dict(self._settings), "schedule": self._schedule.state(), **pictures}

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned, with the same settings."""
        if state["settings"] != self._settings:
            raise RunError(f"the saved state belongs to the shift {state['settings']}, not to {self._settings}")
        self._schedule.load_state(state["schedule"])
        self._raw, self._shifted = state["raw"].copy(), state["shifted"].copy()
