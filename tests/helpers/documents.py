"""What the documents consist of: headings, links, pictures, blocks. Shared by the tests of what they say."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})([^\n`]*)\n(.*?)^ *\2 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(\s*<?([^()\s>]+(?:\([^()\s]*\))?)>?(?:\s+\"[^\"]*\")?\s*\)")
_DEFINED = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
_HTML = re.compile(r"<(\w+)[^>]*?\b(?:src|href)=[\"']([^\"']+)[\"']")
_AUTO = re.compile(r"<((?:https?|mailto):[^>\s]*)>")
_MACHINE = re.compile(r"(?<![\w./~$}-])/(?:tmp|work|opt|root|home|Users)(?:/[\w.-]*\w|\b)")
_REPOSITORY = re.compile(r"^(?:src|tests|docs|benchmarks|examples)/[\w./-]+$")
_MARK = re.compile(r"<!-- *test: *((?:(?!-->).)*?) *-->\s*$", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `mark` is what a comment right above it says of its test: `<!-- test: ... -->`."""

    path: Path
    line: int  # of the fence
    language: str
    text: str
    mark: str

    @property
    def name(self) -> str:
        return f"{self.path.name}:{self.line}"


def documents(root: Path = ROOT) -> list[Path]:
    """README, CONTRIBUTING and CHANGELOG, and all of docs."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        mark = _MARK.search(text[: match.start()])
        lines = match[4].splitlines()
        inner = "\n".join(line.removeprefix(match[1]) for line in lines)
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(path, line, match[3].strip(), inner, " ".join(mark[1].split()) if mark else ""))
    return found


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def prose(text: str) -> str:
    """Without blocks, comments and code, each character in its place."""
    text = _COMMENT.sub(_blank, _FENCE.sub(_blank, text))
    return _CODE.sub(lambda m: re.sub(r"[^\n]", "x", m[0]), text)


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives a document's headings: in lower case, spaces as hyphens, without other marks; the
    second of a kind ends in -1."""
    return _anchors(path.read_text(encoding="utf-8"))


@cache
def _anchors(text: str) -> set[str]:
    text = _COMMENT.sub(_blank, _FENCE.sub(_blank, text))
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^ {0,3}#{1,6} +(.*?)(?: +#+)? *$", text, re.MULTILINE):
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = "".join(c for c in shown.lower() if c.isalnum() or c in "-_ ").replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(text: str) -> Iterator[tuple[int, str, bool]]:
    """Line, target, and whether it is a picture."""
    bare = prose(text)
    for match in _LINK.finditer(bare):
        line = bare.count("\n", 0, match.start()) + 1
        yield line, match[3], match[1] == "!"
        for inner in _LINK.finditer(match[2]):  # a picture that is a link
            yield line, inner[3], inner[1] == "!"
    for match in _HTML.finditer(bare):
        yield bare.count("\n", 0, match.start()) + 1, match[2], match[1].lower() == "img"
    for pattern in (_DEFINED, _AUTO):
        for match in pattern.finditer(bare):
            yield bare.count("\n", 0, match.start()) + 1, match[1], False


def why_broken(target: str, path: Path, root: Path, picture: bool = False) -> str | None:
    """What is wrong with a link in the document `path`, or None. What lies elsewhere is not asked for."""
    parts = urlsplit(target)
    if parts.scheme in ("http", "https"):
        fine = re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?", parts.netloc) and not re.search(r"[\s\"<>\\^`{|}]", target)
        return None if fine else f"{target} is not a well-formed address"
    if parts.scheme == "mailto":
        return None if re.fullmatch(r"[^@\s]+@[\w-]+(\.[\w-]+)+", parts.path) else f"{target} is no mail address"
    if parts.scheme or parts.netloc:
        return f"{target} has a scheme that no reader follows"
    if parts.path.startswith("/"):
        return f"{target} is an absolute path"
    file = (path.parent / parts.path).resolve() if parts.path else path
    if not file.is_relative_to(root.resolve()):
        return f"{target} leads out of the repository"
    if not file.exists():
        return f"{target} does not exist"
    if picture and file.suffix not in (".png", ".svg", ".gif", ".jpg"):
        return f"{target} is no picture"
    if parts.fragment and (file.suffix != ".md" or parts.fragment not in anchors(file)):
        return f"{target} names a heading that is not there"
    return None


def problems(root: Path = ROOT) -> list[str]:
    """Everything that is wrong with the links, pictures, paths and targets that the documents name; one sentence
    each, with its place."""
    said, shown = [], set()
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):(?!=)", makefile, re.MULTILINE))
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        where = path.relative_to(root).as_posix()
        for line, target, picture in links(text):
            shown.add((path.parent / target).resolve())
            why = why_broken(target, path, root, picture)
            said += [f"{where}:{line}: {why}"] if why else []
        for match in _MACHINE.finditer(text):
            said.append(f"{where}:{_line(text, match)}: {match[0]} is a path of one machine")
        for match in re.finditer(r"(?:^|`|&& )make ([a-z][\w-]*)", text, re.MULTILINE):
            if match[1] not in targets:
                said.append(f"{where}:{_line(text, match)}: there is no `make {match[1]}`")
        for match in _CODE.finditer(_FENCE.sub(_blank, text)):
            if _REPOSITORY.match(match[2]) and not (root / match[2]).exists():
                said.append(f"{where}:{_line(text, match)}: {match[2]} does not exist")
    for picture in sorted((root / "docs" / "pictures").glob("*")):
        if picture.resolve() not in shown:
            said.append(f"docs/pictures/{picture.name} is shown nowhere")
    return said + list(_docstring_problems(root))


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def _docstring_problems(root: Path) -> Iterator[str]:
    """Links in docstrings, which readers follow in docs/api.md."""
    for path in sorted((root / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            text, line = ast.get_docstring(node) or "", getattr(node, "lineno", 1)
            where = f"{path.relative_to(root).as_posix()}:{line}"
            for _, target, picture in links(text):
                if re.search(r"[/#]|\.md$|^\w+:", target):  # E[Q](s) is an equation
                    why = why_broken(target, root / "docs" / "api.md", root, picture)
                    if why:
                        yield f"{where}: {why}"
            for match in _MACHINE.finditer(text):
                yield f"{where}: {match[0]} is a path of one machine"
