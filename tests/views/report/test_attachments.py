"""Files of an earlier page are removed; files of anybody else are not."""

import hashlib
import json

import pytest

from dsacc.errors import RunError
from dsacc.views.report.attachments import Attachments


def page(path, **files):
    attachments = Attachments(path)
    for name, text in files.items():
        attachments.write(f"figures/{name}.svg", text.encode())
    attachments.settle()


def names(path):
    return sorted(p.name for p in (path / "figures").iterdir())


def test_a_file_that_the_new_page_does_not_have_goes(tmp_path):
    page(tmp_path, a="1", b="2")
    page(tmp_path, a="3")
    assert names(tmp_path) == ["a.svg"]
    assert (tmp_path / "figures" / "a.svg").read_text() == "3"


def test_a_users_own_file_and_one_that_was_changed_stay(tmp_path):
    page(tmp_path, a="1", b="2", c="3")
    (tmp_path / "figures" / "mine.svg").write_text("mine")
    (tmp_path / "figures" / "b.svg").write_text("2, with my arrows")
    page(tmp_path, a="1")
    assert names(tmp_path) == ["a.svg", "b.svg", "mine.svg"]
    page(tmp_path, a="1")
    assert names(tmp_path) == ["a.svg", "b.svg", "mine.svg"]


def test_an_adopted_file_is_the_pages(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "weather.png").write_bytes(b"rain")
    attachments = Attachments(tmp_path)
    attachments.adopt("figures/weather.png")
    attachments.settle()
    page(tmp_path, a="1")
    assert names(tmp_path) == ["a.svg"]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"figures/a.svg": 3}', "[" * 100_000])
def test_a_damaged_list_removes_nothing(tmp_path, damage):
    page(tmp_path, a="1")
    (tmp_path / "manifest.json").write_text(damage)
    page(tmp_path, b="1")
    assert names(tmp_path) == ["a.svg", "b.svg"]


@pytest.mark.parametrize(
    "name", ["../precious", "figures/../../precious", "/precious", "figures/../precious", "link/x"]
)
def test_a_list_from_elsewhere_leads_nowhere_else(tmp_path, name):
    out, precious = tmp_path / "out", tmp_path / "precious"
    page(out, a="1")
    for path in (precious, out / "precious", tmp_path / "room" / "x"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    (out / "link").symlink_to(tmp_path / "room")
    (out / "figures" / "linked.svg").symlink_to(precious)
    mark = hashlib.sha256(b"mine").hexdigest()
    (out / "manifest.json").write_text(json.dumps({name: mark, str(precious): mark, "figures/linked.svg": mark}))
    page(out, a="1")
    assert all(p.read_text() == "mine" for p in (precious, out / "precious", tmp_path / "room" / "x"))
    assert (out / "figures" / "linked.svg").is_symlink()


@pytest.mark.parametrize("name", ["", "figures", "tables"])
def test_a_page_is_not_written_into_somebody_elses_folder_through_a_link(tmp_path, name):
    path, others = tmp_path / "page_files" / name, tmp_path / "others"
    (others / "tables").mkdir(parents=True)
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(others)
    with pytest.raises(RunError, match="is a link, and links are not followed"):
        page(tmp_path / "page_files", a="1")
    assert [p.name for p in others.iterdir()] == ["tables"]
