"""How well does an agent do? Full episodes of any agent under any condition, with raw scores."""

from dsacc.play.adapters import find_player
from dsacc.play.callbacks import KeepBest, MeanScore, StopWithoutGain
from dsacc.play.rollout import evaluate

__all__ = ["KeepBest", "MeanScore", "StopWithoutGain", "evaluate", "find_player"]
