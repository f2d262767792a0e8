"""The colours of agents can be told apart, on white and on black, also by readers who see fewer colours."""

import itertools
import re
from importlib import resources

import numpy as np
import pytest

from dsacc.views.report.drawing import COLOURS

# How colours look without one kind of cone, for linear RGB (Machado, Oliveira and Fernandes 2009, full severity).
EYES = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    x = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of linear RGB: distances are about as large as they look."""
    x = TO_XYZ @ np.clip(rgb, 0, 1) / (TO_XYZ @ np.ones(3))
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def themes():
    """The colours of the page: light, dark, print."""
    text = (resources.files("dsacc.views.report") / "templates" / "style.css").read_text(encoding="utf-8")
    blocks = [re.findall(r"--s\d: (#[0-9a-f]{6})", block) for block in text.split(":root")[1:]]
    return [block for block in blocks if block]


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("eyes", EYES)
def test_any_two_colours_can_be_told_apart(theme, eyes):
    colours = [lab(np.array(EYES[eyes]) @ linear(c)) for c in themes()[theme]]
    assert len(colours) == 7
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(colours, 2)) > 15


def test_figures_and_page_have_the_same_colours():
    light, dark, paper = themes()
    assert light == paper == list(COLOURS)
    assert set(light).isdisjoint(dark)
