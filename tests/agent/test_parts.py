"""Observations of several parts as one row: nothing is lost, and pictures alone are moved."""

import numpy as np
import pytest
import torch

from dsacc.agent.networks import make_encoder
from dsacc.agent.observation import ObservationSpec
from dsacc.agent.parts import dict_spec, packed, split, unpacked, with_pictures
from dsacc.agent.scaling import scaled
from dsacc.config import make_config
from dsacc.errors import ConfigError

SPEC = dict_spec(
    {
        "speed": ObservationSpec("vector", (3,)),
        "camera": ObservationSpec("image", (1, 3, 5)),  # 15 bytes: numbers after it are not aligned
        "gear": ObservationSpec("discrete", (2,), (4, 300)),
    }
)
RNG = np.random.default_rng(0)
PARTS = {
    "camera": RNG.integers(0, 256, (6, 1, 3, 5), dtype=np.uint8),
    "gear": np.stack([RNG.integers(0, 4, 6), RNG.integers(0, 300, 6)], axis=1),
    "speed": (RNG.normal(size=(6, 3)) * [1e-30, 1, 1e30]).astype(np.float32),
}


def test_parts_come_back_from_a_row_of_bytes_to_the_bit():
    rows = packed(PARTS, SPEC)
    assert rows.dtype == np.uint8
    assert rows.shape == (6, *SPEC.shape) == (6, 15 + 2 * 4 + 3 * 4)
    parts = split(unpacked(torch.from_numpy(rows), SPEC, lambda x: x.float()), SPEC)
    assert np.array_equal(parts["camera"].numpy(), PARTS["camera"])
    assert np.array_equal(parts["speed"].numpy(), PARTS["speed"])
    assert np.array_equal(parts["gear"][:, :4].argmax(1).numpy(), PARTS["gear"][:, 0])
    assert np.array_equal(parts["gear"][:, 4:].argmax(1).numpy(), PARTS["gear"][:, 1])
    assert (parts["gear"].sum(1) == 2).all()


def test_pictures_in_a_row_are_scaled_as_pictures_alone():
    rows = torch.from_numpy(packed(PARTS, SPEC))
    alone = torch.from_numpy(PARTS["camera"])
    for centred in (False, True):
        seen = split(scaled(rows, centred, SPEC), SPEC)["camera"]
        assert torch.equal(seen, scaled(alone, centred))


def test_a_change_of_pictures_leaves_the_other_parts_alone():
    rows = packed(PARTS, SPEC)
    changed = with_pictures(rows, SPEC, lambda pictures: 255 - pictures)
    assert np.array_equal(changed, packed({**PARTS, "camera": 255 - PARTS["camera"]}, SPEC))
    assert np.array_equal(rows, packed(PARTS, SPEC))


@pytest.mark.parametrize("encoder", ["auto", "compact", "small", "mlp"])
def test_each_picture_has_its_own_encoder_and_the_rest_one_mlp(encoder):
    spec = dict_spec(
        {
            "front": ObservationSpec("image", (3, 40, 40)),
            "back": ObservationSpec("image", (1, 40, 20)),
            "gear": ObservationSpec("discrete", (1,), (4,)),
            "speed": ObservationSpec("vector", (2,)),
        }
    )
    network = make_encoder(make_config(encoder=encoder, hidden=16), spec)
    assert len(network.encoders) == 3
    assert network.encoders[2].body[0].in_features == 6
    assert network(torch.zeros(5, spec.width)).shape == (5, 16)


def test_a_dict_without_pictures_is_one_mlp_over_all_numbers():
    spec = dict_spec({"a": ObservationSpec("vector", (2,)), "b": ObservationSpec("discrete", (1,), (3,))})
    assert not spec.has_pictures
    network = make_encoder(make_config(hidden=8), spec)
    assert [tuple(p.shape) for p in network.parameters() if p.dim() > 1] == [(8, 5), (8, 8)]
    with pytest.raises(ConfigError, match="needs pictures, but this environment shows none"):
        make_encoder(make_config(encoder="nature"), spec)


def test_parts_can_explain_each_other():
    """Where parts were only added up, the value of one could not depend on another: the mixed difference would be 0."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network, x = make_encoder(make_config(encoder="mlp", hidden=16), SPEC), torch.rand(2, SPEC.width)
    mixed = torch.cat([x[0, :15], x[1, 15:]]), torch.cat([x[1, :15], x[0, 15:]])
    with torch.no_grad():
        both, other = network(x).sum(dim=0), network(torch.stack(mixed)).sum(dim=0)
    assert (both - other).abs().max() > 1e-4
