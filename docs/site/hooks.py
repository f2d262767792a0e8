"""What MkDocs does not know of this repository. Its documents are written to be read as files, on GitHub or in an
editor; these hooks make a site of them without changing a file.

- README is the first page; CONTRIBUTING and CHANGELOG are pages too.
- A link out of docs/, to an example or a benchmark, leads to a page that shows the file. So the site needs no address
  of a repository, and can be read from disk.
- A report, docs/studies/NAME.html, becomes NAME-report.html, because the page NAME.md becomes NAME.html.
- Headings get the anchors that GitHub gives them, which links use.
- What belongs to an item of a list may be indented by two spaces, or three.
- Comments that tell the tests how to run a block are left out.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the tests of these hooks run without MkDocs
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
SHOWN = "files/"  # below it are the pages that show a file of the repository
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "sh"}

_LINK = re.compile(r"\]\((?![a-z]+:|#|/)([^()\s#]+)(#[^()\s]*)?\)")
_ITEM = re.compile(r"([-*+]|\d+\.) ")
_FENCE = re.compile(r"`{3,}|~{3,}")
_COMMENT = re.compile(r"^<!-- *(?:test|check):.*?-->\n+", re.MULTILINE | re.DOTALL)


def place(path: str) -> str:
    """The page or file of the site that is made of a file of the repository."""
    if not path.startswith("docs/"):
        return PAGES.get(path, f"{SHOWN}{path}.md")
    return re.sub(r"\.html$", "-report.html", path.removeprefix("docs/"))


def origin(page: str) -> str:
    """The file of the repository that a page is made of."""
    outside = {place: path for path, place in PAGES.items()}
    return outside.get(page, f"docs/{page}")


def target(document: str, link: str) -> str:
    """The file of the repository that a relative link in a document means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(document), link))


def files_shown() -> Iterator[str]:
    """Files that a page links to and that are not on the site by themselves."""
    for document in [*PAGES, *(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]:
        for link, _ in _LINK.findall((ROOT / document).read_text(encoding="utf-8")):
            path = target(document, link)
            if place(path).startswith(SHOWN) and (ROOT / path).is_file():
                yield path


def showing(path: str) -> str:
    """A page that shows a file. The fence is longer than any that the file may contain."""
    text = (ROOT / path).read_text(encoding="utf-8")
    fence = "~" * 20
    return f"# {path}\n\n{fence}{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}{fence}\n"


def indented(markdown: str) -> str:
    """With four spaces for each level of a list, and an empty line after an item of several paragraphs. GitHub needs
    neither; without them Python's Markdown ends the list."""
    lines: list[str] = []
    levels, shift = [0], 0  # spaces of each level in the source; how far this line is moved
    listed, parted, fence = False, False, ""  # in a list, in an item with an empty line, in a block
    for line in markdown.split("\n"):
        text = line.lstrip(" ")
        spaces = len(line) - len(text)
        if text and not fence:
            if spaces == 0:
                if parted and _ITEM.match(text) and lines[-1]:
                    lines.append("")
                listed, parted = bool(_ITEM.match(text)), False
            levels = [level for level in levels if level < spaces] + [spaces] if spaces else [0]
            shift = 4 * (len(levels) - 1) - spaces if listed else 0
        parted |= listed and not text
        lines.append(" " * (spaces + shift) + text if text else "")
        if mark := _FENCE.match(text):
            fence = mark[0] if not fence else "" if text.startswith(fence) else fence
    return "\n".join(lines)


class Slugs:
    """Anchors as on GitHub: letters of any alphabet, spaces as hyphens, the second of a kind ends in -1."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()  # of one page

    def __call__(self, heading: str, separator: str = "-") -> str:
        slug = "".join(c for c in heading.lower() if c.isalnum() or c in "-_ ").replace(" ", "-")
        self.seen[slug] += 1
        return slug if self.seen[slug] == 1 else f"{slug}-{self.seen[slug] - 1}"


slugs = Slugs()


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugs
    config.nav = _present(config.nav)
    return config


def _present(entries: list[Any]) -> list[Any]:
    """The navigation without pages that are not written yet. A name that is misspelt is still found: its page is then
    missing from the navigation, which a strict build refuses."""
    kept = []
    for entry in entries:
        ((title, value),) = entry.items()
        if isinstance(value, list):
            kept.append({title: _present(value)})
        elif (ROOT / origin(value)).is_file():
            kept.append(entry)
    return kept


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    from mkdocs.structure.files import File

    for path, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    for path in sorted(set(files_shown())):
        files.append(File.generated(config, place(path), content=showing(path)))
    for report in sorted((ROOT / "docs").rglob("*.html")):
        files.append(File.generated(config, place(report.relative_to(ROOT).as_posix()), abs_src_path=str(report)))
    return files


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    slugs.seen.clear()
    shows_a_file = page.file.src_uri.startswith(SHOWN)
    return markdown if shows_a_file else for_the_site(markdown, page.file.src_uri)


def for_the_site(markdown: str, page: str) -> str:
    """A document's text as a page of the site."""
    here = posixpath.dirname(page)

    def follow(match: re.Match[str]) -> str:
        path = target(origin(page), match[1])
        if not (ROOT / path).is_file():
            return match[0]  # MkDocs says so
        return f"]({posixpath.relpath(place(path), here or '.')}{match[2] or ''})"

    return indented(_LINK.sub(follow, _COMMENT.sub("", markdown)))
