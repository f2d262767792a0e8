"""A saved agent is what was saved, or it is refused."""

import dataclasses
import json
import re

import numpy as np
import pytest
from safetensors.torch import save as to_bytes

from dsacc import DSAC
from dsacc.errors import BadInput, ModelError
from dsacc.runs.model_file import model_bytes, parse_model, read_model


@pytest.fixture(scope="module")
def model():
    return DSAC("CartPole-v1", hidden=8, seed=1)


def header_of(data):
    size = int.from_bytes(data[:8], "little")
    return 8 + size, json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["dsacc"])


def test_the_same_agent_gives_the_same_bytes(model, tmp_path):
    saved = model.save(tmp_path / "agent").read_bytes()
    assert model_bytes(DSAC.load(tmp_path / "agent").to_file()) == saved
    assert len(header_of(saved)[1]["sha256"]) == 64


def test_one_changed_byte_anywhere_is_refused(model, tmp_path):
    data = model_bytes(model.to_file())
    end, _ = header_of(data)
    rng = np.random.default_rng(0)
    places = [*range(0, end, 7), *rng.integers(end, len(data), 200).tolist()]  # in the header, in the tensors
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= int(rng.integers(1, 256)) if place % 2 else 1 << int(rng.integers(8))
        with pytest.raises(ModelError, match=r"\A.+ (damaged|cannot be used).*\Z"):  # one line
            parse_model(bytes(damaged), tmp_path / f"byte-{place}.safetensors")


@pytest.mark.parametrize(("old", "new"), [(b"sha256", b"sha257"), (b"hidden", b"hIdden"), (b': \\"', b':\t\\"')])
def test_a_damaged_name_does_not_hide_the_hash(old, new, model, tmp_path):
    data = model_bytes(model.to_file())
    assert old in data
    with pytest.raises(ModelError, match="is not a saved dsacc agent, or is damaged"):
        parse_model(data.replace(old, new, 1), tmp_path / "agent.safetensors")


def test_a_file_from_before_files_had_a_hash_still_loads(model, tmp_path):
    file = model.to_file()
    _, header = header_of(model_bytes(file))
    del header["sha256"]
    (tmp_path / "old.safetensors").write_bytes(to_bytes(file.tensors, {"dsacc": json.dumps(header, sort_keys=True)}))
    assert model_bytes(read_model(tmp_path / "old")) == model_bytes(file)


def test_a_link_to_an_agent_is_refused_with_a_sentence(model, tmp_path):
    (tmp_path / "link.safetensors").symlink_to(model.save(tmp_path / "agent"))
    with pytest.raises(ModelError, match=r"link\.safetensors cannot be read"):
        DSAC.load(tmp_path / "link")


GOOD = {"name": "dsac, hardened", "kinds": ["snow"], "train_seed": None}


@pytest.mark.parametrize(
    "wrong", [{"name": 7}, {"kinds": "snow"}, {"kinds": [7]}, {"train_seed": "0"}, {"train_seed": True}], ids=str
)
def test_a_header_that_does_not_say_by_what_an_agent_was_hardened_is_refused(wrong, model, tmp_path):
    for seed in (None, 3):
        good = dataclasses.replace(model.to_file(), hardened={**GOOD, "train_seed": seed})
        assert parse_model(model_bytes(good), tmp_path).hardened == good.hardened
    with pytest.raises(ModelError, match="it does not say what it was hardened with"):
        parse_model(model_bytes(dataclasses.replace(good, hardened={**GOOD, **wrong})), tmp_path)


@pytest.mark.parametrize("name", ["foo.zip", "foo.pt", "foo.onnx"])
def test_a_name_that_promises_another_kind_of_file_is_refused(name, model, tmp_path):
    with pytest.raises(ModelError, match=r"give 'foo' or 'foo\.safetensors' as its name, not 'foo\.\w+'"):
        model.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["foo", "foo.safetensors", "foo-0.99", "v1.5"])
def test_other_names_are_kept(name, model, tmp_path):
    assert model.save(tmp_path / name).name == name.removesuffix(".safetensors") + ".safetensors"
    assert DSAC.load(tmp_path / name).config == model.config


HUGE = 10**400  # more than a float holds
PICTURE = {"type": "Box", "dtype": "uint8"}


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (["step"], 1e999, "is damaged"),
        (["config", "hidden"], HUGE, "a whole number has more than 128 bits"),
        (["config", "hidden"], 10**9, "which are of larger networks"),
        (["config", "hidden"], 10**30, "does not say what its agent sees and does"),
        (["config", "hidden_layers"], 10**9, "which are of larger networks"),
        (["config", "envs"], 10**9, "envs must be at most 65536"),
        (["config", "env"], "\x1b]0;title\x07", r"env must be text without control characters, not '\\x1b\]0"),
        (["hardened"], {"name": "\x1b[2J", "kinds": [], "train_seed": 0}, "does not say what it was hardened with"),
        (["actions"], 10**12, "actions are too many"),
        (["space"], {}, "does not say what its agent sees"),
        (["space", "dtype"], "O", "does not say what its agent sees"),
        (["space", "shape"], [-4], "does not say what its agent sees"),
        (["space", "shape"], [10**5, 10**5], "sees more than 67,108,864 numbers at once"),
        (["space"], {**PICTURE, "shape": [3, 4000, 4000]}, "which are of larger networks"),
        (
            ["space"],
            {"type": "Discrete", "n": 10**12, "start": 0},
            "which are of larger networks",
        ),
        (["space"], {"type": "MultiBinary", "n": 10**11}, "sees more than 67,108,864 numbers at once"),
    ],
    ids=lambda x: str(x)[:30],
)
def test_a_header_that_says_something_impossible_is_one_sentence_and_takes_no_memory(
    where, value, said, model, tmp_path
):
    file = model.to_file()
    _, header = header_of(model_bytes(file))
    del header["sha256"]
    *around, last = where
    place = header
    for key in around:
        place = place[key]
    place[last] = value
    (tmp_path / "x.safetensors").write_bytes(to_bytes(file.tensors, {"dsacc": json.dumps(header)}))
    with pytest.raises(BadInput, match=r"\A.+\Z") as caught:
        DSAC.load(tmp_path / "x")
    assert re.search(said, str(caught.value)), caught.value
