"""What changes in the course of a run: how many steps a return has, its discount, the temperature, learning rates, and
when networks are reset.

All of it follows from the settings and the agent step. So there is no state to save, and a run that continues goes on
where it was.
"""

from dsacc.config import Config
from dsacc.maths import exponential_schedule, linear_schedule


def cycle_start(config: Config, step: int) -> int:
    """The agent step at which annealing began last: the end of the random steps, or the newest reset."""
    if not config.reset_every:
        return config.random_steps
    last = step if config.reset_until is None else min(step, config.reset_until)
    return max(config.random_steps, last // config.reset_every * config.reset_every)


def reset_is_due(config: Config, step: int) -> bool:
    """Whether the networks are reset at this agent step, before its updates."""
    return bool(config.reset_every) and step > config.random_steps and cycle_start(config, step) == step


def annealed_share(config: Config, step: int) -> float:
    """How much of the way from start to end is done: below 0 before the start and above 1 after the end, where the
    schedules are constant."""
    since = step - cycle_start(config, step)
    return (since - config.anneal_start) / (config.anneal_end - config.anneal_start)


def n_step_at(config: Config, step: int) -> int:
    """n at this agent step, a whole number: round(n_step^(1-x) n_step_final^x), or the straight line between them."""
    if config.n_step_final is None:
        return config.n_step
    shape = linear_schedule if config.anneal_shape == "linear" else exponential_schedule
    return round(shape(config.n_step, config.n_step_final, annealed_share(config, step)))


def alpha_at(config: Config, step: int) -> float:
    """alpha at this agent step, where it is not tuned: alpha^(1-x) alpha_final^x, or the straight line between them."""
    start = config.alpha or 0.0
    if config.alpha_final is None:
        return start
    shape = linear_schedule if config.anneal_shape == "linear" else exponential_schedule
    return shape(start, config.alpha_final, annealed_share(config, step))


def rate_factor_at(config: Config, step: int) -> float:
    """What learning rates are multiplied by at this agent step: 1 at the start, learning_rate_final / learning_rate at
    the end, in between a power of that or the straight line."""
    if config.learning_rate_final is None:
        return 1.0
    shape = linear_schedule if config.anneal_shape == "linear" else exponential_schedule
    return shape(1.0, config.learning_rate_final / config.learning_rate, annealed_share(config, step))


def greedy_at(config: Config, step: int) -> bool:
    """Whether training plays the most probable action at this agent step: in the last `greedy_share` of every
    `greedy_period` steps. Whole stretches, because it takes some steps to get into what only greedy play meets."""
    return step % config.greedy_period >= (1 - config.greedy_share) * config.greedy_period


def gamma_at(config: Config, step: int) -> float:
    """gamma at this agent step. Exponentially it is the horizon 1 / (1 - gamma) that changes by equal factors:
    1 - gamma = (1 - gamma_0)^(1-x) (1 - gamma_1)^x."""
    if config.gamma_final is None:
        return config.gamma
    share = annealed_share(config, step)
    if config.anneal_shape == "linear":
        return linear_schedule(config.gamma, config.gamma_final, share)
    return 1 - exponential_schedule(1 - config.gamma, 1 - config.gamma_final, share)
