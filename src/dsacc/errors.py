"""Typed errors. Each message is one sentence for the user: what is wrong, where, and what to do next."""


class DsaccError(Exception):
    """Anything this package reports on purpose."""


class BadInput(DsaccError, ValueError):
    """The user can mend it. The command line prints the sentence and exits with code 2."""


class ConfigError(BadInput):
    """A setting is unknown, of the wrong type, or out of its range."""


class EnvError(BadInput):
    """The environment is unknown, has spaces that a discrete agent cannot use, or returned something unusable."""


class ModelError(BadInput):
    """A saved agent or an observation does not fit."""


class RunError(BadInput):
    """A run folder does not fit the command."""


class TrainingDiverged(DsaccError):
    """A loss is no longer a finite number."""


class Stopped(DsaccError):
    """A signal asked the run to stop; it was saved first."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"stopped by signal {signal}")
        self.signal = signal


def first_line(error: BaseException) -> str:
    """`ValueError: what happened`, in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
