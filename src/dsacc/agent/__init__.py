"""The learning agent: networks, the constraint that tells the agents apart, and the update."""

from dsacc.agent.learner import Batch, Learner
from dsacc.agent.observation import ObservationSpec

__all__ = ["Batch", "Learner", "ObservationSpec"]
