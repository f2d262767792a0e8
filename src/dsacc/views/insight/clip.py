"""The paper's clip figure for a real state: Q, and the constrained policy with lambda clipped to [0, 1] and without."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from dsacc.agent.constraints import constraints_of, noise_shape
from dsacc.dsac import DSAC
from dsacc.envs import action_names, checked, make_env, require_env
from dsacc.envs.masks import MaskReader
from dsacc.errors import ConfigError
from dsacc.play.adapters.base import choose
from dsacc.system.trust import trusting
from dsacc.system.types import Array
from dsacc.views.insight.look import FREE, Insight, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BATCH = 64  # states per batch
CLIPPED, UNCLIPPED, VALUES, INK = (
    "#009e73",
    "#d95f02",
    "#0064c8",
    "#333333",
)  # of the report, which redraws them on dark


@dataclass(frozen=True)
class ClipData:
    """One state of a run under one draw of noise, and how common such states were among those examined.

    `verdict` is "lost" if the unclipped lambda makes another action more probable than the best one and the clipped
    lambda does not. It is "changed" if no state is like that but the clip changes lambda, and "none" if the clip never
    changes anything. `sentence` says it in words.
    """

    verdict: str
    sentence: str
    env: str
    agent: str
    train_step: int
    seed: int
    game_step: int  # agent steps before the state, over all games played
    constraint: str  # "mean" or "variance"
    actions: tuple[str, ...]
    best: int  # the action with the highest Q
    alpha: float
    noise: float | tuple[float, ...]  # the standard normal draw; one number per action for "weights" and "values"
    target: float
    q: Array  # [A]
    surrogate: Array  # [A], softmax(Q / alpha)
    policy: Array  # [A], the actor's
    clipped: Array  # [A], the constrained policy at `lam`
    unclipped: Array  # [A], the same at `root`
    lam: float  # within [0, 1]
    root: float  # lambda without the clip
    kept_clipped: bool  # whether the best action is still a most probable one
    kept_unclipped: bool
    looked_at: int  # pairs of a state and a draw
    share_clipped: float  # share of these pairs whose root is outside [0, 1]
    share_unreachable: float  # share for which no lambda meets the target
    share_lost: float  # share in which the unclipped policy loses the best action
    share_lost_clipped: float  # share in which the clipped policy loses it: 0 for the mean constraint
    observation: Array  # as the agent saw it


def clip_figure_data(
    source: DSAC | str | Path,
    seed: int = 0,
    *,
    env: str | Callable[[], gym.Env[Any, Any]] | None = None,
    steps: int = 300,
    draws: int = 8,
    trust: bool = False,
) -> ClipData:
    """Play `steps` agent steps with sampled actions, and choose one state and one draw of noise to show.

    `source` is an agent, a run folder or a saved agent. `env` is by default the one that it was trained on. Each state
    is examined under `draws` draws of the noise that training used. The same arguments always choose the same pair: one
    in which the unclipped lambda loses the action with the highest Q and the clipped lambda keeps it, else one in which
    the clip changes lambda, else any. Pairs whose target some lambda meets come first. Of these it takes the one whose
    surrogate policy has the largest probability; of equals, the earliest. `trust` is as in `evaluate`.
    """
    model = source if isinstance(source, DSAC) else DSAC.load(source, trust=trust)
    c = model.config
    if env is None:
        with trusting(trust):
            require_env(c.env, model.origin)
    chosen = constraints_of(c.constraint)
    if len(chosen) != 1 or c.fixed_lambda is not None:
        what = "a fixed lambda" if c.fixed_lambda is not None else "two" if chosen else "no constraint"
        raise ConfigError(f"the clip figure needs an agent with one multiplier that is solved; {c.agent} has {what}")
    if steps < 1 or draws < 1:
        raise ConfigError(f"steps and draws must be at least 1, not {steps} and {draws}")
    if seed < 0:
        raise ConfigError(f"seed must be at least 0, not {seed}")
    game, actions, noises = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
    made = make_env(env or c.env) if env is None or isinstance(env, str) else env()
    names = tuple(action_names(made))
    observations = _play(model, made, steps, int(game.integers(2**31)), actions)
    shape = noise_shape(c, 1, len(names))[1:]
    noise_SD = noises.standard_normal((steps, draws, *shape))
    parts = []
    for i in range(0, steps, BATCH):
        noise_ND = noise_SD[i : i + BATCH].reshape(-1, *shape)
        parts.append(_facts(look(model, np.repeat(observations[i : i + BATCH], draws, axis=0), noise=noise_ND)))
    groups = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    verdict, pair = _choose(groups)
    state, draw = divmod(pair, draws)
    drawn = noise_SD[state, draw]
    one = look(model, observations[state], noise=drawn[None])
    assert one.kept is not None
    assert one.clipped_BA is not None
    assert one.unclipped_BA is not None
    assert one.root_B is not None
    shares = {name: float(groups[name].mean()) for name in ("outside", "unreachable", "lost", "lost_clipped")}
    return ClipData(
        verdict=verdict,
        sentence=_sentence(verdict, shares, steps * draws),
        env=c.env,
        agent=c.agent,
        train_step=model.step,
        seed=seed,
        game_step=state,
        constraint=chosen[0].name,
        actions=names,
        best=int(one.best_B[0]),
        alpha=one.alpha,
        noise=float(drawn) if not shape else tuple(float(x) for x in drawn),
        target=float(one.target_BK[0, 0]),
        q=one.q_BA[0],
        surrogate=one.surrogate_BA[0],
        policy=one.policy_BA[0],
        clipped=one.clipped_BA[0],
        unclipped=one.unclipped_BA[0],
        lam=float(one.lambda_BK[0, 0]),
        root=float(one.root_B[0]),
        kept_clipped=bool(one.kept[0][0]),
        kept_unclipped=bool(one.kept[1][0]),
        looked_at=steps * draws,
        observation=np.array(observations[state]),
        share_clipped=shares["outside"],
        share_unreachable=shares["unreachable"],
        share_lost=shares["lost"],
        share_lost_clipped=shares["lost_clipped"],
    )


def _play(model: DSAC, env: gym.Env[Any, Any], steps: int, seed: int, rng: np.random.Generator) -> Array:
    """The observations of `steps` sampled steps, in as many games as that takes. [S, ...]"""
    with closing(env):
        observation, info = checked.reset(env, seed)
        if MaskReader(env, model.learner.actions).read(info) is not None:
            raise ConfigError("the clip figure is for environments without action masks, and this one has them")
        seen = []
        for number in range(1, steps + 1):
            seen.append(np.array(observation))
            (action,) = choose(model.logits(observation), [rng], greedy=False)
            observation, _, terminated, truncated, _ = checked.step(env, int(action), number)
            if terminated or truncated:
                observation, _ = checked.reset(env)
        return np.stack(seen)


def _facts(x: Insight) -> dict[str, Array]:
    assert x.kept is not None
    assert x.root_B is not None
    assert x.reached_B is not None
    clipped_B, unclipped_B = x.kept
    return {
        # Rounding alone can put a root slightly outside.
        "outside": (x.root_B < -1e-9) | (x.root_B > 1 + 1e-9),
        "unreachable": ~x.reached_B,
        "lost": ~unclipped_B,
        "lost_clipped": ~clipped_B,
        "sure": x.surrogate_BA.max(axis=1),
    }


def _choose(facts: dict[str, Array]) -> tuple[str, int]:
    """The verdict, and the index of the pair to show."""
    saved_N = facts["outside"] & facts["lost"] & ~facts["lost_clipped"]
    groups = {"lost": saved_N, "changed": facts["outside"], "none": np.ones_like(saved_N)}
    verdict, among_N = next((name, group_N) for name, group_N in groups.items() if group_N.any())
    met_N = among_N & ~facts["unreachable"]
    among_N = met_N if met_N.any() else among_N
    return verdict, int(np.where(among_N, facts["sure"], -1).argmax())


def _sentence(verdict: str, shares: dict[str, float], count: int) -> str:
    looked = f"of {count:,} pairs of a state and a draw of noise"
    if verdict == "none":
        return f"Clipping has no effect here: {looked}, none has a λ outside [0, 1]."
    outside, lost = f"{shares['outside']:.0%}", f"{shares['lost']:.0%}"
    if verdict == "changed":
        return f"Clipping changes λ in {outside} {looked}, but never saves the best action."
    return f"Without the clip, λ leaves [0, 1] in {outside} {looked}, and the best action is lost in {lost}."


def draw_clip(data: ClipData, axes: "Sequence[Axes] | None" = None) -> "Figure":
    """Draw Q above and the two policies below, into two given axes or a new figure. Returns the figure.

    Colour-blind people can tell the colours apart; hatching helps without colour. The best action is marked.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    many = len(data.actions) > 6
    if axes is None:
        figure = Figure(figsize=(min(max(5.5, 0.5 * len(data.actions)), 8.5), 5.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = list(figure.subplots(2, 1, sharex=True, height_ratios=[2, 3]))
    above, below = axes
    x = np.arange(len(data.actions))
    spread = max(float(np.ptp(data.q)), 1e-9)
    floor = data.q.min() - 0.15 * spread
    colours = [VALUES if i == data.best else f"{VALUES}88" for i in x]
    above.vlines(x, floor, data.q, colours, linewidth=3)
    above.scatter(x, data.q, 60, colours)
    above.set_ylim(floor, data.q.max() + 0.35 * spread)
    above.text(data.best, data.q[data.best] + 0.12 * spread, "best", ha="center", color=VALUES, fontsize=9)
    above.set_ylabel("Q")
    symbol = constraints_of(data.constraint)[0].symbol
    bars = (
        (-0.2, data.clipped, data.kept_clipped, CLIPPED, "", f"clipped, {symbol} = {data.lam:.2f}"),
        (0.2, data.unclipped, data.kept_unclipped, UNCLIPPED, "///", f"not clipped, {symbol} = {_root(data.root)}"),
    )
    handles: list[Any] = []
    for shift, policy, kept, colour, hatch, label in bars:
        label += f": {_fate(policy, kept)}"
        style: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        handles.append(below.bar(x + shift, policy, 0.4, label=label, **style))
    style = {"color": INK, "markersize": 8 if many else 16, "markeredgewidth": 2}
    handles += below.plot(x, data.surrogate, "_", label="softmax(Q/α)", **style)  # noqa: RUF001
    below.set_ylim(0, 1.1 * max(p.max() for p in (data.clipped, data.unclipped, data.surrogate)))
    below.set_ylabel("probability")
    for axis in axes:
        axis.set_xticks(x, data.actions, rotation=90 if many else 0, fontsize=9)
    above.tick_params(labelbottom=False, length=0)
    below.legend(handles=handles, frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    name = data.env.removeprefix("dsacc/").split("-v")[0]
    above.set_title(f"{data.agent.upper()} on {name}, state {data.game_step}", fontsize=10, loc="left")
    for axis in (above, below):
        axis.spines[["top", "right"]].set_visible(False)
    drawn = above.get_figure(root=True)
    assert isinstance(drawn, Figure)
    return drawn


def _root(value: float) -> str:
    return "∞" if value >= FREE[1] else "-∞" if value <= FREE[0] else f"{value:.2f}"


def _fate(policy: Array, kept: bool) -> str:
    if np.ptp(policy) < 1e-9:
        return "all actions equally likely"
    return "best action kept" if kept else "best action lost"
