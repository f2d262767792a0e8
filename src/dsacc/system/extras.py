"""Optional packages: what each extra brings, and the command that messages tell people to install it with."""

import shlex

# The packages of each extra that a message may name, as in pyproject.toml; a test compares them.
PACKAGES = {
    "atari": ("ale-py",),
    "box2d": ("gymnasium[box2d]",),
    "minatar": ("MinAtar",),
    "ray": ("ray",),
    "slurm": ("submitit",),
    "tensorboard": ("tensorboardX", "tensorboard"),
    "video": ("imageio-ffmpeg",),
    "sb3": ("stable-baselines3", "sb3-contrib"),
    "onnx": ("onnx", "onnxruntime"),
}
ALONE = {"minatar"}  # extras whose packages ask for others that we do not use: dsacc itself brings what they need here


def how_to_install(extra: str) -> str:
    """The command that installs an extra's packages.

    It names the packages themselves and not `dsacc[extra]`. So it works wherever dsacc came from, a clone, a wheel or
    an index, and never fetches another package of that name.

    >>> how_to_install("sb3")
    'pip install stable-baselines3 sb3-contrib'
    """
    return shlex.join(["pip", "install", *(["--no-deps"] if extra in ALONE else []), *PACKAGES[extra]])
