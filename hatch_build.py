"""The description of the package, from README.md, as a package index can show it.

An index has no files beside the page: a relative link or picture leads nowhere there. If pyproject.toml names a
`Repository` under [project.urls], links and pictures become absolute addresses in it. As long as it names none,
pictures are left out, links become their text, and a last line says where the pages are.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n", re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]*)\)")
_WHERE = "\nThe pages and examples that are named here, and the pictures, are in the source distribution.\n"


def description(readme: str, repository: str | None = None) -> str:
    """README's text without relative links."""
    text = _COMMENT.sub("", readme)
    if repository:
        return _LINK.sub(lambda m: f"{m[1]}[{m[2]}]({_address(repository, m[3], picture=bool(m[1]))})", text)
    return _LINK.sub(lambda m: m[2], _PICTURE.sub("", text)) + _WHERE


def _address(repository: str, path: str, picture: bool) -> str:
    return f"{repository.rstrip('/')}/{'raw' if picture else 'blob'}/HEAD/{path}"


class Description(MetadataHookInterface):
    """What hatchling calls for the metadata that pyproject.toml lists as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text, repository)}
