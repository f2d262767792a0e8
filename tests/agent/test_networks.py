"""Which encoder sees what."""

import pytest
import torch

from dsacc.agent.networks import FIRST_GAIN, Actor, Critics, Encoder, choose_encoder, initialise
from dsacc.agent.observation import ObservationSpec
from dsacc.agent.scaling import rescaled, scaled, standardised
from dsacc.config import make_config
from dsacc.errors import ConfigError

PICTURE = ObservationSpec("image", (4, 84, 84))


@pytest.mark.parametrize(
    ("settings", "spec", "kind"),
    [
        ({}, ObservationSpec("vector", (4,)), "mlp"),
        ({}, ObservationSpec("discrete", (1,), (16,)), "mlp"),
        ({}, PICTURE, "nature"),
        ({"shared_trunk": True}, PICTURE, "small"),
        ({"shared_trunk": True, "encoder": "nature"}, PICTURE, "nature"),
        ({}, ObservationSpec("image", (3, 20, 20)), "small"),
        ({}, ObservationSpec("image", (4, 10, 10)), "mlp"),
        ({}, ObservationSpec("image", (3, 36, 36)), "nature"),
        ({}, ObservationSpec("image", (3, 35, 84)), "small"),
        ({}, ObservationSpec("image", (3, 84, 35)), "small"),
        ({}, ObservationSpec("image", (3, 16, 84)), "small"),
        ({}, ObservationSpec("image", (3, 15, 84)), "mlp"),
        ({}, ObservationSpec("image", (3, 84, 15)), "mlp"),
        ({"encoder": "mlp"}, PICTURE, "mlp"),
        ({"encoder": "compact"}, PICTURE, "compact"),
        ({"encoder": "compact", "shared_trunk": True}, ObservationSpec("image", (3, 36, 40)), "compact"),
        ({"encoder": "compact"}, ObservationSpec("image", (3, 20, 20)), "small"),
        ({"encoder": "compact"}, ObservationSpec("vector", (4,)), "mlp"),
        ({"encoder": "compact"}, ObservationSpec("image", (4, 10, 10)), "mlp"),
    ],
)
def test_auto_picks_the_encoder_by_the_observation(settings, spec, kind):
    assert choose_encoder(make_config(**settings), spec) == kind


@pytest.mark.parametrize("shape", [(4, 84, 84), (3, 36, 40), (1, 25, 25), (3, 20, 20), (4, 10, 10)])
@pytest.mark.parametrize("encoder", ["auto", "small", "compact"])
def test_pictures_of_any_size_become_features(shape, encoder):
    spec = ObservationSpec("image", shape)
    network = Encoder(make_config(encoder=encoder, hidden=32), spec)
    assert network(scaled(torch.randint(0, 256, (2, *shape), dtype=torch.uint8), centred=False)).shape == (2, 32)


def test_nature_cnn_is_the_published_one():
    network = Encoder(make_config("paper"), PICTURE)
    shapes = [tuple(p.shape) for p in network.parameters() if p.dim() > 1]
    assert shapes == [(32, 4, 8, 8), (64, 32, 4, 4), (64, 64, 3, 3), (512, 3136)]


def test_cells_is_minatars_network_behind_a_layer_that_reads_cells():
    network = Encoder(make_config("paper-minatar"), ObservationSpec("image", (3, 40, 40)))
    shapes = [tuple(p.shape) for p in network.parameters() if p.dim() > 1]
    assert shapes == [(16, 3, 4, 4), (16, 16, 3, 3), (128, 16 * 8 * 8)]
    assert network.convolutions[0].stride == (4, 4)


def test_compact_is_the_first_published_dqn():
    network = Encoder(make_config("efficient"), PICTURE)
    shapes = [tuple(p.shape) for p in network.parameters() if p.dim() > 1]
    assert shapes == [(16, 4, 8, 8), (32, 16, 4, 4), (256, 2592)]


def test_rescaled_features_do_not_see_a_change_of_contrast():
    """Without biases the convolutions are linear up to the ReLU, so half the contrast halves every feature."""
    pictures = torch.rand(3, 4, 84, 84)
    plain, scale_free = (Encoder(make_config(encoder="compact", rescale_features=on), PICTURE) for on in (False, True))
    for network in (plain, scale_free):
        initialise(network, torch.Generator().manual_seed(0))
    assert not torch.allclose(plain(pictures), plain(pictures / 2), rtol=0.1)
    assert torch.allclose(scale_free(pictures), scale_free(pictures / 2), rtol=1e-3, atol=1e-3)
    x = rescaled(torch.randn(5, 3, 3, 8))
    assert x.amin((1, 2, 3)).tolist() == [0] * 5
    assert x.amax((1, 2, 3)).tolist() == pytest.approx([1] * 5, rel=1e-4)
    assert rescaled(torch.zeros(1, 2, 2, 1)).isfinite().all()


def test_layer_norm_takes_mean_and_spread_out_of_each_pictures_convolution_output():
    network = Encoder(make_config(encoder="compact", layer_norm=True), PICTURE)
    initialise(network, torch.Generator().manual_seed(0))
    pictures, seen = torch.rand(3, 4, 84, 84, generator=torch.Generator().manual_seed(1)), []
    network.body.register_forward_pre_hook(lambda module, given: seen.append(given[0].detach().double()))
    network(pictures)
    x = network.convolutions(pictures).permute(0, 2, 3, 1).flatten(1).detach().double()
    spread = (x.var(dim=1, correction=0, keepdim=True) + 1e-5).sqrt()
    wanted = FIRST_GAIN * (x - x.mean(dim=1, keepdim=True)) / spread
    torch.testing.assert_close(seen[0], wanted, rtol=1e-4, atol=1e-5)
    assert network(pictures).allclose(torch.cat([network(p[None]) for p in pictures]), atol=1e-5)  # each by itself


def test_layer_norm_of_vectors_comes_before_each_relu():
    spec = ObservationSpec("vector", (5,))
    network = Encoder(make_config(hidden=6, hidden_layers=2, layer_norm=True), spec)
    initialise(network, torch.Generator().manual_seed(0))
    x = wanted = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    for name in ("0", "3"):
        weights = network.state_dict()
        wanted = wanted @ weights[f"body.{name}.weight"].T + weights[f"body.{name}.bias"]
        wanted = wanted - wanted.mean(dim=1, keepdim=True)
        wanted = (wanted / (wanted.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()).clamp(min=0)
    torch.testing.assert_close(network(x), wanted, rtol=1e-4, atol=1e-5)
    assert len(Encoder(make_config(hidden=6), spec).body) == 4


@pytest.mark.parametrize("kind", ["compact", "nature", "small", "mlp"])
def test_standardised_pictures_show_neither_brightness_nor_contrast(kind):
    """Also where each frame of a stack has its own brightness and contrast."""
    pictures = torch.rand(3, 4, 84, 84, generator=torch.Generator().manual_seed(0))
    changed = (
        pictures * torch.tensor([1.0, 0.7, 0.9, 0.6])[:, None, None] + torch.tensor([0, 0.3, 0.1, 0.2])[:, None, None]
    )
    plain, blind = (Encoder(make_config(encoder=kind, standardise_pictures=on), PICTURE) for on in (False, True))
    for network in (plain, blind):
        initialise(network, torch.Generator().manual_seed(0))
    far, near = ((network(pictures) - network(changed)).norm() / network(pictures).norm() for network in (plain, blind))
    assert near < 0.03 < 0.1 < far
    by_hand = standardised(torch.tensor([[[[0.0, 1.0]], [[0.2, 0.6]]]]))  # deviations of 1/2 and 1/5 from the mean
    assert by_hand.flatten().tolist() == pytest.approx([-0.5 / 0.51, 0.5 / 0.51, -0.2 / 0.21, 0.2 / 0.21])
    x = standardised(torch.rand(2, 3, 8, 8))
    assert x.mean((2, 3)).abs().max() < 1e-5
    assert standardised(torch.full((1, 1, 4, 4), 0.5)).abs().max() < 1e-4


def test_vectors_are_not_standardised():
    networks = [Encoder(make_config(standardise_pictures=on), ObservationSpec("vector", (4,))) for on in (False, True)]
    for network in networks:
        initialise(network, torch.Generator().manual_seed(0))
    vectors = torch.rand(3, 4)
    assert networks[0](vectors).equal(networks[1](vectors))


def test_pixels_are_divided_by_255_once():
    network = Encoder(make_config(encoder="mlp", hidden=4, hidden_layers=1), ObservationSpec("image", (1, 2, 2)))
    with torch.no_grad():
        network.body[0].weight.fill_(1.0)
        network.body[0].bias.zero_()
    white = torch.full((1, 1, 2, 2), 255, dtype=torch.uint8)
    assert network(scaled(white, centred=False))[0, 0].item() == pytest.approx(4.0)


def test_discrete_observations_are_one_hot():
    network = Encoder(make_config(hidden=2, hidden_layers=1), ObservationSpec("discrete", (2,), (3, 2)))
    with torch.no_grad():
        network.body[0].weight.copy_(torch.tensor([[1.0, 2, 4, 8, 16], [0, 0, 0, 0, 0]]))
        network.body[0].bias.zero_()
    assert network(torch.tensor([[2, 1]]))[0, 0] == 4 + 16


def test_initial_weights_are_kaiming_normal_with_zero_biases():
    critics = Critics(make_config(hidden=512), ObservationSpec("vector", (64,)), 4)
    initialise(critics, torch.Generator().manual_seed(0))
    weight = critics.encoders[0].body[0].weight
    assert weight.std().item() == pytest.approx((2 / 64) ** 0.5, rel=0.05)
    assert all((m.bias == 0).all() for m in critics.modules() if hasattr(m, "bias"))


def test_separate_networks_share_nothing():
    config, spec = make_config(hidden=8), ObservationSpec("vector", (3,))
    critics, actor = Critics(config, spec, 2), Actor(config, spec, 2)
    for k in (0, 1):
        critics.zero_grad()
        critics(torch.ones(1, 3))[k].sum().backward()
        trained = {name for name, p in critics.named_parameters() if p.grad is not None}
        own = (f"encoders.{k}.", f"heads.{k}.")
        assert trained == {name for name, _ in critics.named_parameters() if name.startswith(own)}
    assert not {p.data_ptr() for p in critics.parameters()} & {p.data_ptr() for p in actor.parameters()}
    seen = torch.ones(1, 3)
    assert torch.equal(actor(seen, torch.zeros(1, 8)), actor(seen, torch.ones(1, 8)))


def test_with_a_shared_trunk_both_critics_train_it_and_the_actor_does_not():
    config, spec = make_config(hidden=8, shared_trunk=True), ObservationSpec("vector", (3,))
    critics, actor = Critics(config, spec, 2), Actor(config, spec, 2)
    initialise(critics, torch.Generator().manual_seed(0))
    seen = torch.ones(1, 3)
    gradients = []
    for k in (0, 1):
        critics.zero_grad()
        critics(seen)[k].sum().backward()
        gradients.append(critics.encoders[0].body[0].weight.grad.clone())
    assert all(g.abs().sum() > 0 for g in gradients)
    critics.zero_grad()
    actor(seen, critics.features(seen)[0]).sum().backward()
    assert all(p.grad is None for p in critics.parameters())
    assert actor.head.weight.grad is not None


@pytest.mark.parametrize(
    ("encoder", "spec", "message"),
    [
        ("nature", ObservationSpec("vector", (4,)), "needs pictures"),
        ("nature", ObservationSpec("image", (3, 20, 20)), "36x36"),
        ("small", ObservationSpec("image", (3, 6, 6)), "8x8"),
    ],
)
def test_an_encoder_that_does_not_fit_says_so(encoder, spec, message):
    with pytest.raises(ConfigError, match=message):
        Encoder(make_config(encoder=encoder), spec)


def test_observation_spec_counts_what_enters_a_layer():
    spec = ObservationSpec("discrete", (2,), (3, 2))
    assert (spec.width, spec.dtype) == (5, "int64")
