"""How well does an agent do? Full episodes of any agent under any condition, with raw scores."""

from dsacc.play.adapters import find_player
from dsacc.play.rollout import evaluate

__all__ = ["evaluate", "find_player"]
