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


class Damaged(RunError):
    """A file is not as dsacc wrote it."""


class Unchecked(UserWarning):
    """Rows of tests were used that carry no checksum. `count` says how many."""

    def __init__(self, count: int, where: object) -> None:
        super().__init__(f"{where}: {self.sentence(count)}")
        self.count = count

    @staticmethod
    def sentence(count: int) -> str:
        """`3 rows of tests were written before rows carried a sha256, and count unchecked`."""
        rows = f"{count:,} rows of tests were" if count > 1 else "1 row of tests was"
        return f"{rows} written before rows carried a sha256, and count{'s' if count == 1 else ''} unchecked"


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
