"""The folder of files beside a page. It holds a list of the files that the page wrote. The next page removes those that
it no longer has, and never removes a file of anybody else."""

import json
from pathlib import Path

from dsacc.errors import RunError
from dsacc.system.files import json_or_empty, sha256, write_atomically

LIST = "manifest.json"
FOLDERS = ("figures", "tables")


class Attachments:
    """Files that belong to a page. First `write` and `adopt` them, then `settle`."""

    def __init__(self, path: Path) -> None:
        for folder in (path, *(path / name for name in FOLDERS)):
            if folder.is_symlink():  # files of these names might be anybody's there
                raise RunError(f"{folder} is a link, and links are not followed; choose another --out")
        self.path = path
        self._made: dict[str, str] = {}  # "figures/clip.svg": its sha256

    def write(self, name: str, data: bytes) -> None:
        write_atomically(self.path / name, data)
        self._made[name] = sha256(data)

    def adopt(self, name: str) -> None:
        """Take over a file that other code has written here for the page."""
        self._made[name] = sha256((self.path / name).read_bytes())

    def settle(self) -> None:
        """Remove what an earlier page wrote and this one did not, unless it has been changed. Then write the list."""
        for name, written in self._earlier().items():
            path = self.path / name
            if name not in self._made and self._is_own(name) and sha256(path.read_bytes()) == written:
                path.unlink()
        write_atomically(self.path / LIST, (json.dumps(self._made, indent=1, sort_keys=True) + "\n").encode())

    def _earlier(self) -> dict[str, str]:
        """The list of the earlier page. A damaged list counts as empty, and then nothing is removed."""
        found = json_or_empty(self.path / LIST)
        return {name: written for name, written in found.items() if isinstance(written, str)}

    def _is_own(self, name: str) -> bool:
        """Whether it is a regular file in one of our folders. The list may come from anyone, so no other path in it is
        followed."""
        folder, _, file = name.partition("/")
        if folder not in FOLDERS or Path(file).name != file or file in ("", ".", "..") or "\0" in file or "\\" in file:
            return False
        path = self.path / folder / file
        return path.is_file() and not path.is_symlink() and not path.parent.is_symlink()
