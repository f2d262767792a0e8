"""`harden`: collect states, ask the teacher about them, and teach the student under augmentation."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from dsacc.config import default_preset
from dsacc.dsac import DSAC
from dsacc.envs import EnvSource, Observations, check_actions, checked, env_name
from dsacc.envs.masks import MaskReader
from dsacc.envs.record import noted, record_of
from dsacc.errors import ConfigError
from dsacc.hardening.session import HardenSession
from dsacc.hardening.teacher import Teacher
from dsacc.hardening.work import ROUNDS, STATES, UPDATES, Recipe, Work
from dsacc.play.adapters import as_player
from dsacc.play.source import check_same, find_source
from dsacc.runs import RunFolder, read_latest
from dsacc.runs.session import Unsaved
from dsacc.shifts import resolve
from dsacc.system.memory import free_memory
from dsacc.system.progress import Silent, Watcher, watcher
from dsacc.system.text import size
from dsacc.system.threads import using_threads

Env = gym.Env[Any, Any]
CHECKPOINT_EVERY = 1_000  # updates
RATE = 1e-3  # Adam's step size at the start
FILTER = "detail"  # of a student that begins anew
# What a new student has in place of its teacher's settings: one bright flake sets the scale of rescaled features.
NEW: dict[str, Any] = {"layer_norm": True, "rescale_features": False}


def harden(
    agent: Any,
    env: EnvSource | None = None,
    *,
    augment: str | Sequence[str] = "generic",
    updates: int = UPDATES,
    states: int = STATES,
    rounds: int = ROUNDS,
    seed: int = 0,
    picture_filter: str | None = None,
    fresh: bool = True,
    encoder: str | None = None,
    values: bool = False,
    out: str | Path | None = None,
    checkpoint_every: int = CHECKPOINT_EVERY,
    trust: bool = False,
    threads: int = 1,
    device: str = "cpu",
    progress_bar: bool = False,
) -> DSAC:
    """A student that plays like `agent` and keeps its score under shifts that it never saw. It is a DSAC again.

    - `agent`, `env`, `trust`: as in `evaluate`. The environment must show pictures.
    - `augment`: "generic" (nothing that looks like weather), "near" (relatives of weather too), or any augmentations
      and shifts by name.
    - `updates`: of the student, each from 16 clean and 24 augmented states.
    - `states`: how many are collected. With `rounds`, half of them come from the student's own play under augmentation,
      collected in so many rounds; the others from the teacher's play.
    - `seed` fixes everything random.
    - `picture_filter`: of the student. By default "detail", and that of the agent if the student begins as its copy.
    - `fresh`: begin with new weights and a layer norm. With False, a student of an agent of ours with the same filter
      begins as a copy: closer to the agent on clean pictures, further from it in weather.
    - `encoder`: of a student with new weights, by default the agent's own.
    - `values`: the scores that a function or an ONNX graph returns are values Q, not logits.
    - `out`: a run folder for the student. The same call continues it after a stop, and ends with the same bytes. It is
      saved every `checkpoint_every` updates.
    - `threads`, `device`: of torch.
    """
    if isinstance(checkpoint_every, bool) or not isinstance(checkpoint_every, int) or checkpoint_every < 1:
        raise ConfigError(f"checkpoint_every must be a whole number of at least 1, not {checkpoint_every!r}")
    recipe = Recipe((augment,) if isinstance(augment, str) else tuple(augment), updates, states, rounds, seed)
    player = as_player(agent, env=env, trust=trust)
    make = find_source(player, env, together=True, trust=trust).make
    with closing(make()) as first:
        check_same(player, first, asked_for=env is not None)
        player.check_fits(first)
        observations, actions = Observations(first.observation_space), check_actions(first)
        if observations.parts:
            raise ConfigError(f"{env_name(first)} shows several inputs; hardening is for agents that see one picture")
        if not observations.is_image:
            raise ConfigError(f"{env_name(first)} shows no pictures: augmentations are made for pictures")
        if MaskReader(first, actions).read(checked.reset(first, 0)[1]) is not None:
            raise ConfigError(
                f"{env_name(first)} has action masks, and a student cannot be taught among allowed actions yet; harden "
                "on an environment without masks"
            )
        teacher = Teacher(player, actions, values)
        changed = NEW if encoder is None else {**NEW, "encoder": encoder}
        model = new_student(teacher, first, recipe, picture_filter, fresh=fresh, device=device, changed=changed)
        if encoder is not None and model.config.encoder != encoder:
            raise ConfigError(
                f"a copy of the agent has its encoder, {model.config.encoder}; leave out encoder or --no-fresh"
            )
    _require_memory(recipe.states, observations)
    folder = None if out is None else RunFolder(out, model.config, recipe.updates, model.hardened, model.environment)
    if folder is not None and folder.found == "finished":
        return DSAC.from_file(read_latest(folder.path), device=device, name=str(folder.path))
    with using_threads(threads):
        work = Work(model, teacher, make, recipe, RATE)
        session = Unsaved() if folder is None else HardenSession(folder, work, checkpoint_every)
        with session, closing(_watcher(work, progress_bar)) as watch:
            for row in work.steps(session.pause):
                if row is not None:
                    watch.row(row)
                    session.log(row)
                watch.step(work.step)
                session.after_step(work.step - 1)
        work.student.publish()
    return model


def new_student(
    teacher: Teacher,
    env: Env,
    recipe: Recipe,
    picture_filter: str | None = None,
    *,
    fresh: bool = True,
    device: str = "cpu",
    changed: dict[str, Any] = NEW,
) -> DSAC:
    """The student before its first update. `changed`: settings of a new one in place of the teacher's."""
    player, own = teacher.player, teacher.model
    kinds = tuple(dict.fromkeys((*getattr(player, "augmented", ()), *resolve(recipe.augment))))
    base = own.config.agent if own is not None else player.agent
    hardened: dict[str, Any] = {
        "name": f"{base}, hardened" + ("" if recipe.augment == ("generic",) else f" ({' '.join(recipe.augment)})"),
        "teacher": player.agent,
        "fingerprint": player.fingerprint,
        "train_seed": player.train_seed,
        "values": teacher.values,
        "kinds": list(kinds),
        **{name: list(value) if isinstance(value, tuple) else value for name, value in vars(recipe).items()},
    }
    picture_filter = picture_filter or (FILTER if fresh or own is None else own.config.picture_filter)
    hardened["fresh"] = fresh or own is None or picture_filter != own.config.picture_filter
    about: dict[str, Any] = {"hardened": hardened, "environment": noted(record_of(env))}
    if own is not None and not hardened["fresh"]:
        return DSAC.from_file(replace(own.to_file(), **about), device=device)
    if own is not None:
        settings: dict[str, Any] = {**vars(own.config), **changed, "picture_filter": picture_filter}
        settings.pop("env")
        if picture_filter != "none":
            settings["augment_pictures"] = "none"  # training does not augment behind a filter; `kinds` remembers it
        begun = DSAC(env, preset="classic", **settings)  # the preset changes nothing: every setting is given
    else:
        preset, settings = default_preset(pictures=True), {**changed, "picture_filter": picture_filter}
        begun = DSAC(env, preset=preset, seed=player.train_seed or 0, **settings)
    return DSAC.from_file(replace(begun.to_file(), step=player.step or 0, **about), device=device)


def _require_memory(count: int, observations: Observations) -> None:
    """Refuse more states than fit, before anything is played."""
    # As they are, as the network sees them, and once more while a round is added.
    each, free = 3 * int(np.prod(observations.raw_shape)), free_memory()
    if count * each > free:
        fits = f"states {int(0.9 * free / each):,}"
        raise ConfigError(f"{count:,} states need {size(count * each)}, and only {size(free)} are free; use {fits}")


def _watcher(work: Work, shown: bool) -> Watcher:
    return watcher(work.recipe.updates, work.step, "hardening", "updates") if shown else Silent()
