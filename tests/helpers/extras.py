"""Marks of tests that need more than the extra `dev`. Without it they are skipped, and say what to install."""

from importlib.util import find_spec

import pytest

from dsacc.system.extras import how_to_install


def needs(package: str, extra: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"needs {package}: {how_to_install(extra)}")


atari = needs("ale_py", "atari")
minatar = needs("minatar", "minatar")
