"""The learning agent: networks, the constraints that tell the agents apart, and the update."""

from dsacc.agent.batch import Batch
from dsacc.agent.encoders import register_encoder
from dsacc.agent.learner import Learner
from dsacc.agent.observation import ObservationSpec

__all__ = ["Batch", "Learner", "ObservationSpec", "register_encoder"]
