"""Typed errors. Each message is one sentence that says what is wrong, where, and what to do next."""


class DsaccError(Exception):
    """Every error that this package raises on purpose."""


class BadInput(DsaccError, ValueError):
    """An error that the user can fix. The command line prints its message and exits with code 2."""


class ConfigError(BadInput):
    """A setting is unknown, has the wrong type, or is out of its range."""


class EnvError(BadInput):
    """An environment is unknown, has spaces that a discrete agent cannot use, or returned something unusable."""


class EnvFailed(EnvError):
    """An environment raised an exception of its own, which is the `__cause__` of this one."""


class ModelError(BadInput):
    """A saved agent or an observation does not fit."""


class RunError(BadInput):
    """A run folder does not fit the command."""


class Untrusted(ModelError):
    """A file names or holds code, and nobody has said that it may run."""


class TrainingDiverged(DsaccError):
    """A loss is no longer a finite number."""


class Stopped(DsaccError):
    """A signal stopped the run, which was saved first."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"stopped by signal {signal}")
        self.signal = signal


def first_line(error: BaseException) -> str:
    """`ValueError: what happened`, on one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
