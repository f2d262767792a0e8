"""How well does a policy do? Full episodes, raw scores, every condition."""

from dsacc.play.adapters import find_player
from dsacc.play.rollout import evaluate

__all__ = ["evaluate", "find_player"]
