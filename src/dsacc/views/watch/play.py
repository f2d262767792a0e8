"""Plays the same games as an evaluation, and draws them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from dsacc.analysis.names import display_name
from dsacc.envs import EnvSource, Observations, action_names, checked, env_name, make_env, stacked
from dsacc.envs.filters import filtered_picture
from dsacc.envs.masks import stacked_masks
from dsacc.envs.pictures import float_pictures
from dsacc.envs.protocol import HasScreen
from dsacc.envs.record import noted
from dsacc.envs.spaces import picture_part, shows_pictures
from dsacc.errors import ConfigError, EnvError
from dsacc.play.adapters import OwnPlayer, Player, as_player
from dsacc.play.adapters.base import act_among, takes_masks
from dsacc.play.rollout import BATCH, Episode, Game, conditions_of
from dsacc.play.source import Source, check_same, find_source
from dsacc.play.store import Trial
from dsacc.shifts import Severity, exposure
from dsacc.shifts.layout import Layout
from dsacc.system.progress import Silent, watcher
from dsacc.system.threads import using_threads
from dsacc.system.types import Array
from dsacc.views.watch.film import check_file, film
from dsacc.views.watch.panel import Moment, Panel, arrange
from dsacc.views.watch.readout import Reader, Readout, reader_of

Env = gym.Env[Any, Any]

MOST = 4  # conditions in one video
MOST_ACTIONS = 64  # a line each
MAX_STEPS = 1_000  # agent steps shown per game
HOLD = 1.0  # seconds for which the last picture of a game stays
FPS = 15.0  # if the environment does not say


@dataclass(frozen=True)
class Watched:
    """A video and what it shows."""

    path: Path
    frames: int
    fps: float
    size: tuple[int, int]  # width, height
    shifts: tuple[str, ...]
    scores: dict[str, list[float]]  # by shift, one per game; up to the cut if a game was cut
    steps: dict[str, list[int]]  # by shift, agent steps per game
    cut: bool  # whether any game was cut before its end


def watch(
    agent: Any,
    env: EnvSource | None = None,
    *,
    out: str | Path,
    shifts: Sequence[str] | None = None,
    severity: Severity | str = "paper",
    mode: str = "independent",
    where: str | None = None,
    policy: str = "greedy",
    episodes: int = 1,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
    fps: float | None = None,
    trust: bool = False,
    threads: int = 1,
    progress_bar: bool = False,
) -> Watched:
    """Write a video of `agent` playing under each of `shifts` (up to four, side by side) to `out`, .mp4 or .gif.

    `agent`, `env` and the conditions are as in `evaluate`, and so are the games: the same seed shows the games that it
    scored. By default games with pictures are shown clean and under snow. A game is shown for at most `max_steps` agent
    steps. `fps` is frames per second, by default the environment's own.
    """
    path = check_file(out)
    for name, value, least in (("episodes", episodes, 1), ("max_steps", max_steps, 1), ("seed", seed, 0)):
        if value < least:
            raise ConfigError(f"{name} must be at least {least}, not {value}")
    if fps is not None and not 1 <= fps <= 120:
        raise ConfigError(f"fps must be 1 to 120, not {fps:g}")
    player, read = reader_of(as_player(agent, env=env, trust=trust))
    by_name = not noted(getattr(player, "environment", None))  # by its name it can be made with pictures
    source = find_source(player, env, together=True, by_name=by_name, trust=trust)
    make, first = _with_pictures(source)
    with closing(first):
        check_same(player, first, asked_for=env is not None or by_name)
        player.check_fits(first)
        if shifts is None:
            shifts = ("id", "snow") if shows_pictures(first.observation_space) else ("id",)
        trials = list(conditions_of(first, shifts, severity, mode, where, policy))
        if len(trials) > MOST:
            raise ConfigError(f"at most {MOST} conditions fit into a video, not {len(trials)}; choose fewer shifts")
        speed = float(fps or first.metadata.get("render_fps") or FPS)
        name = source.name or player.env or env_name(first)
        names = action_names(first)
        if len(names) > MOST_ACTIONS:
            raise ConfigError(f"a video has room for {MOST_ACTIONS} actions; {env_name(first)} has {len(names):,}")
    games = [Game(make(), trial, seed, takes_masks(player)) for trial in trials]
    show = _Show(player, read, games, trials, names, _title(player, name, policy))
    most = episodes * max_steps
    progress = watcher(most, label="frames", unit="frames") if progress_bar else Silent()
    frames = 0
    try:
        with using_threads(threads), film(path, speed) as add:
            for frame in show.frames(episodes, max_steps, round(HOLD * speed)):
                add(frame)
                frames += 1
                if frames <= most:
                    progress.step(frames)
    finally:
        for game in games:
            game.env.close()
        progress.close()
    height, width = frame.shape[:2]
    shown = tuple(trial.shift for trial in trials)
    return Watched(path, frames, speed, (width, height), shown, show.scores, show.steps, show.cut)


def _with_pictures(source: Source) -> tuple[Callable[[], Env], Env]:
    """A function that makes environments with pictures, and one of these environments."""
    make, known = source.make, source.name
    env = make()
    has_pictures = isinstance(env.unwrapped, HasScreen) or shows_pictures(env.observation_space)
    if has_pictures or env.render_mode == "rgb_array":
        return make, env
    name = known or env_name(env)
    env.close()
    if "rgb_array" not in (env.metadata.get("render_modes") or ()):
        raise EnvError(f"{name} gives its agent no pictures and has no render mode rgb_array; it cannot be shown")
    if known is None:
        raise EnvError(f"{name} can only be shown if it is made with render_mode='rgb_array'; make it with that")
    return (lambda: make_env(known, render_mode="rgb_array")), make_env(known, render_mode="rgb_array")


def _title(player: Player, env: str, policy: str) -> str:
    parts = [f"{display_name(player.agent)} on {env.removeprefix('dsacc/').split('-v')[0]}"]
    if player.step is not None:
        parts.append(f"after {player.step:,} steps of training")
    return ", ".join([*parts, policy] if player.agent != "random" else parts)


def _heading(player: Player, trial: Trial) -> tuple[str, str]:
    """The shift, and how strong it is, how it moves, and what a hardened agent met of it before."""
    if trial.shift == "id":
        return "clean", ""
    level = f"severity {trial.severity}" if isinstance(trial.severity, int) else f"{trial.severity}"
    kinds: tuple[str, ...] = getattr(player, "augmented", ())
    about = [level, f"{trial.mode}", *([exposure(trial.shift, kinds)] if kinds else [])]
    return trial.shift.replace("_", " "), ", ".join(about)


class _Show:
    """Games side by side, as frames."""

    def __init__(
        self, player: Player, read: Reader, games: list[Game], trials: list[Trial], names: list[str], title: str
    ) -> None:
        self.player, self.read, self.games, self.trials = player, read, games, trials
        self.names, self.title = names, title
        self.panels: list[Panel] = []
        self.scores: dict[str, list[float]] = {trial.shift: [] for trial in trials}
        self.steps: dict[str, list[int]] = {trial.shift: [] for trial in trials}
        self.cut = False

    def frames(self, episodes: int, max_steps: int, hold: int) -> Iterator[Array]:
        """One frame per step until all games are over; the last frame of each episode is held for a while."""
        for episode in range(episodes):
            for i, game in enumerate(self.games):
                game.begin(Episode(i, episode))
            drawn: dict[int, Array] = {}  # the panels, by game
            running = list(range(len(self.games)))
            while running:
                actions, readouts = self._act_and_read(running)
                found = zip(running, actions, readouts, strict=True)
                moments = {i: self._moment(i, readout, int(action)) for i, action, readout in found}
                self._lay_out(moments)
                drawn |= {i: self.panels[i].draw(moment) for i, moment in moments.items()}
                yield arrange(self.title, [drawn[i] for i in range(len(self.games))])
                for i, moment in moments.items():
                    over = self.games[i].step(moment.action or 0)
                    if over or self.games[i].length >= max_steps:
                        running.remove(i)
                        self.cut |= not over
                        ending = "game over" if over else "cut here"
                        drawn[i] = self.panels[i].draw(self._moment(i, Readout(), None, ending))
            for trial, game in zip(self.trials, self.games, strict=True):
                self.scores[trial.shift].append(game.score)
                self.steps[trial.shift].append(game.length)
            last = arrange(self.title, [drawn[i] for i in range(len(self.games))])
            for _ in range(max(hold, 1)):
                yield last

    def _act_and_read(self, running: list[int]) -> tuple[Array, list[Readout]]:
        """Actions as in an evaluation: a batch of the same size, one generator per game."""
        seen = [self.games[i].observation for i in running]
        pad = BATCH - len(seen)
        rngs = [self.games[i].rng for i in running] + [np.random.default_rng(0) for _ in range(pad)]
        greedy = self.trials[0].policy == "greedy"
        found = [self.games[i].mask for i in running]
        masks = stacked_masks(found + found[:1] * pad)
        actions = act_among(self.player, stacked(seen + [seen[0]] * pad), rngs, greedy, masks)[: len(seen)]
        return actions, self.read(stacked(seen), stacked_masks(found))

    def _moment(self, i: int, readout: Readout, action: int | None, ending: str = "") -> Moment:
        game = self.games[i]
        seen_through = self.player.picture_filter if isinstance(self.player, OwnPlayer) else "none"
        picture, view = _photograph(game.env, game.observation, seen_through)
        return Moment(picture, view, readout, action, game.score, game.length, ending)

    def _lay_out(self, moments: dict[int, Moment]) -> None:
        if not self.panels:
            for i, trial in enumerate(self.trials):
                self.panels.append(Panel(*_heading(self.player, trial), self.names, moments[i]))


def _photograph(env: Env, observation: Any, picture_filter: str) -> tuple[Array, Array | None]:
    """The shifted picture in colour, and the newest picture that the agent sees, if that is a different one."""
    space: Any = env.observation_space
    if (key := picture_part(space)) is not None:
        space, observation = space[key], observation[key]
    image, floats = Observations(space).is_image, float_pictures(space)
    pictures = observation if floats is None else floats.to_bytes(observation)
    newest = Layout(tuple(space.shape or ())).split(pictures)[-1] if image else None
    seen = None if newest is None else filtered_picture(newest, picture_filter)
    if newest is not None and not isinstance(env.unwrapped, HasScreen):
        return newest, None if picture_filter == "none" else seen
    screen = checked.render(env)
    if not isinstance(screen, np.ndarray):
        raise EnvError(f"render() of {env_name(env)} returned {type(screen).__name__}, not a picture")
    return screen, seen
