"""What an agent met of a shift before it was tested under it, in words for tables, figures and sentences.

A row has one of three words for an agent that was trained or hardened under augmentations (`Row.exposure`). Where the
rows of a hardened agent have none, the word is `not known`. An agent that never met an augmentation needs no word.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from dsacc.analysis.names import split_name
from dsacc.analysis.rows import Row
from dsacc.system.text import listed

T = TypeVar("T")
NOT_KNOWN = "not known"
WORDS = ("trained on", "near", NOT_KNOWN, "unseen")  # the order in which they are named: what weighs most comes first
NOTE = (
    "exposure: what the agent met of the shift while it was trained or hardened. unseen: neither the shift nor "
    "anything that looks like it; near: something that looks like it; trained on: the shift itself."
)


def exposure_of(row: Row) -> str | None:
    """The word for a row; None on the clean screen, and for an agent that never met an augmentation."""
    if row.condition.clean:
        return None
    return row.exposure or (NOT_KNOWN if split_name(row.agent)[1] else None)


def in_words(words: Iterable[str]) -> str:
    """Each word once: `unseen`, `trained on, unseen`, or nothing."""
    found = set(words)
    return ", ".join(word for word in WORDS if word in found)


def grouped(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """What belongs to each word, in the order of words; what has none comes first."""
    found: dict[str, list[T]] = {}
    for words, item in pairs:
        found.setdefault(words, []).append(item)
    return sorted(found.items(), key=lambda pair: [WORDS.index(word) for word in pair[0].split(", ") if word])


def phrase(exposures: Mapping[str, str]) -> str:
    """Which shifts have which word; those without a word are left out.

    >>> phrase({"id": "", "snow": "unseen", "rain": "unseen", "fog": "trained on"})
    'fog trained on; snow and rain unseen'
    """
    pairs = [(word, shift) for shift, word in exposures.items() if word]
    return "; ".join(f"{listed(shifts)} {word}" for word, shifts in grouped(pairs))
