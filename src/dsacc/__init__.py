"""Train discrete-action agents that keep working when what they see changes, and measure how well any agent does."""

from dsacc.dsac import DSAC
from dsacc.envs import make_env
from dsacc.evaluation import evaluate

__version__ = "0.1.0"
__all__ = ["DSAC", "evaluate", "make_env"]
