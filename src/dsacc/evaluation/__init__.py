"""How well does a policy do? Full episodes, raw scores, every condition."""

from dsacc.evaluation.policies import find_player
from dsacc.evaluation.rollout import evaluate

__all__ = ["evaluate", "find_player"]
