"""What an agent computes at a state: its policy, its critics' policy, Q and lambda; and what clipping lambda does."""

from dsacc.views.insight.look import Insight, consult, lambdas_under_noise, look, understand

__all__ = ["Insight", "consult", "lambdas_under_noise", "look", "understand"]
