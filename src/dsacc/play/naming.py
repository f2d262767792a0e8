"""The names under which several agents are shown together: what differs between them is a part of the name."""

from collections.abc import Sequence
from typing import Any

from dsacc.analysis.names import split_name
from dsacc.analysis.variants import Contender, made_with, told_apart
from dsacc.dsac import DSAC
from dsacc.play.adapters import BlindPlayer, OwnPlayer, Player


def names_of(players: Sequence[Player], specs: Sequence[str], env: str | None = None) -> list[str]:
    """A name for each player. `specs` are the texts by which they were asked for; `env` is the environment that all of
    them play, where that was given."""
    pairs = zip(players, specs, strict=True)
    return told_apart([_tested(player, spec, env) for player, spec in pairs])


def _tested(player: Player, spec: str, env: str | None) -> Contender:
    inner = player
    while isinstance(inner, BlindPlayer):
        inner = inner.player
    model = inner.model if isinstance(inner, OwnPlayer) else None
    file = spec.removeprefix("blind:")
    about: dict[str, Any] = {"seed": player.train_seed, "identity": player.fingerprint or spec}
    if not isinstance(model, DSAC):
        file = file.removeprefix("sb3:").removeprefix("onnx:")
        return Contender(player.agent, env or player.env or "", file=file, foreign=True, **about)
    settings = made_with(vars(model.config), model.environment, model.step)
    if env is not None:
        settings["trained on"] = model.config.env
    others = model.hardened is not None and not split_name(inner.agent)[0].startswith("dsac")
    recipe = model.hardened or {}
    return Contender(player.agent, env or model.config.env, settings, recipe, file=file, foreign=others, **about)
