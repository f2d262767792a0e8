"""Grids of CartPole runs that take seconds."""


def tiny_grid(agents: list[str], steps: int) -> str:
    return f"""
envs = ["CartPole-v1"]
agents = {agents}
steps = {steps}
[settings]
random_steps = 20
hidden = 16
batch_size = 8
log_every = 20
checkpoint_every = 20
[tests]
episodes = 2
"""
