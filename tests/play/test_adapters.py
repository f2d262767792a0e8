"""Agents of others: they act as they would by themselves, draw only from our generators, and run no code unasked."""

import base64
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from dsacc import DSAC
from dsacc.envs import make_env
from dsacc.errors import BadInput, ConfigError, ModelError
from dsacc.play.adapters import (
    BlindPlayer,
    CallablePlayer,
    OnnxPlayer,
    OwnPlayer,
    RandomPlayer,
    SB3Player,
    as_player,
    find_player,
)
from dsacc.play.adapters.base import layout
from dsacc.training.streams import sample_actions

ROWS = 16


class Pictures(gym.Env):
    """Noise of any shape and type; three actions."""

    def __init__(self, shape=(36, 36, 4), dtype=np.uint8, high=255, actions=3):
        self.observation_space = spaces.Box(0, high, shape, dtype)
        self.action_space = spaces.Discrete(actions)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def rngs(seed=0, count=ROWS):
    return [np.random.default_rng((seed, i)) for i in range(count)]


def vectors(count=ROWS, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)


def pictures(count=ROWS, shape=(36, 36, 4), seed=0):
    rng = np.random.default_rng(seed)
    brightness = rng.random((count,) + (1,) * len(shape))
    return (rng.integers(0, 256, (count, *shape)) * brightness).astype(np.uint8)


def linear(observations):
    """A foreign policy with a different answer for every row."""
    weights = np.arange(8.0).reshape(4, 2) - 3.5
    return (observations.reshape(len(observations), -1)[:, :4] @ weights).astype(np.float32)


def assert_rows_are_their_own(player, observations):
    """Permuting rows permutes actions, other rows change nothing, and the same generators give the same actions."""
    order = np.random.default_rng(7).permutation(len(observations))
    for greedy in (True, False):
        actions = player.act(observations, rngs(), greedy)
        assert actions.shape == (len(observations),)
        assert (player.act(observations, rngs(), greedy) == actions).all()
        drawn = rngs()
        assert (player.act(observations[order], [drawn[i] for i in order], greedy) == actions[order]).all()
        padded = np.concatenate([observations[:3], np.repeat(observations[:1], len(observations) - 3, axis=0)])
        assert (player.act(padded, rngs()[:3] + rngs(9)[3:], greedy)[:3] == actions[:3]).all()


# --- ours and the controls ---


@pytest.fixture(scope="module")
def own():
    return DSAC("CartPole-v1", constraint="mean", seed=3, hidden=16)


def test_our_agent_acts_as_it_predicts_and_draws_once_a_row(own):
    player = OwnPlayer(own)
    assert (player.act(vectors(), rngs(), True) == own.predict(vectors(), deterministic=True)[0]).all()
    near = 0.1 * vectors()  # where neither action is much more probable
    wanted = [sample_actions(row, rng) for row, rng in zip(own.logits(near), rngs(), strict=True)]
    assert (player.act(near, rngs(), False) == wanted).all()
    assert (player.act(near, rngs(1), False) != wanted).any()
    assert_rows_are_their_own(player, near)
    assert_rows_are_their_own(player, vectors())
    assert (player.agent, player.train_seed, player.step, player.env) == ("dsac-m", 3, 0, "CartPole-v1")


def test_our_agent_says_which_environment_does_not_fit(own):
    OwnPlayer(own).check_fits(gym.make("CartPole-v1"))
    with pytest.raises(ModelError, match="has 2 actions and this environment 3"):
        OwnPlayer(own).check_fits(gym.make("Acrobot-v1"))
    with pytest.raises(ModelError, match=r"shape \(4,\) \(vector\); this environment shows \(2, 2\)"):
        OwnPlayer(own).check_fits(Pictures((2, 2), np.float32, 1, actions=2))


def test_random_play_is_uniform_and_seeded():
    player = RandomPlayer(5)
    drawn = player.act(np.zeros((20_000, 1)), rngs(count=20_000), True)
    counts = np.bincount(drawn, minlength=5)
    assert ((counts - 4000) ** 2 / 4000).sum() < 18.5  # chi-squared, 4 degrees of freedom: p = 0.001
    assert_rows_are_their_own(player, vectors())


def test_a_blind_player_shows_grey_pictures_and_zero_vectors():
    seen = []

    def look(observations):
        seen.append(observations.copy())
        return np.zeros(len(observations), int)

    player = BlindPlayer(CallablePlayer(look, "looker"))
    player.act(pictures(), rngs(), True)
    player.act(vectors(), rngs(), True)
    assert seen[0].dtype == np.uint8
    assert (seen[0] == 128).all()
    assert (seen[1] == 0).all()
    assert player.agent == "blind looker"


def test_a_blind_player_refuses_what_has_no_zero(own):
    env = Pictures()
    env.observation_space = spaces.Discrete(4, start=1)
    with pytest.raises(ModelError, match="shown zeros"):
        BlindPlayer(OwnPlayer(own)).check_fits(env)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((4, 5, 6), (5, 6, 4)), ((5, 6, 4), (4, 5, 6)), ((5, 6), (5, 6, 1)), ((1, 5, 6), (5, 6)), ((5, 6, 1), (1, 5, 6))],
)
def test_layouts_of_pictures_convert_pixel_by_pixel(shape, wanted):
    batch = np.random.default_rng(0).random((3, *shape))
    converted = layout(shape, wanted)(batch)
    back = layout(wanted, shape)(converted)
    assert converted.shape == (3, *wanted)
    assert (back == batch).all()
    assert layout((4, 5, 6), (6, 5, 4)) is None


# --- Stable-Baselines3 ---

SMALL = {
    "DQN": {"buffer_size": 64, "exploration_final_eps": 0.3, "policy_kwargs": {"net_arch": [16]}},
    "QRDQN": {"buffer_size": 64, "policy_kwargs": {"net_arch": [16], "n_quantiles": 8}},
    "PPO": {"n_steps": 8, "batch_size": 8, "policy_kwargs": {"net_arch": [16]}},
    "A2C": {"n_steps": 8, "policy_kwargs": {"net_arch": [16]}},
    "MaskablePPO": {"n_steps": 8, "batch_size": 8, "policy_kwargs": {"net_arch": [16]}},
}


def sb3_model(name, env, policy="MlpPolicy", **settings):
    pytest.importorskip("stable_baselines3")
    home = pytest.importorskip("sb3_contrib" if name in ("QRDQN", "MaskablePPO") else "stable_baselines3")
    return getattr(home, name)(policy, env, seed=1, device="cpu", **{**SMALL[name], **settings})


@pytest.fixture(scope="module", params=list(SMALL))
def saved(request, tmp_path_factory):
    """A model, and the file it was saved to."""
    model = sb3_model(request.param, "CartPole-v1")
    path = tmp_path_factory.mktemp("sb3") / "model.zip"
    model.save(path)
    return request.param, model, path


def test_an_sb3_file_acts_as_its_model_predicts(saved):
    name, model, path = saved
    player = find_player(f"sb3:{path}", env="CartPole-v1", trust=True)
    assert (player.agent, player.train_seed, player.step, player.env) == (f"sb3:{name}", 1, 0, None)
    player.check_fits(gym.make("CartPole-v1"))
    observations = vectors(256)
    actions = player.act(observations, rngs(count=256), True)
    assert (actions == model.predict(observations, deterministic=True)[0]).all()
    assert len(set(actions)) == 2
    assert_rows_are_their_own(player, vectors())


def test_the_suffix_of_an_sb3_file_may_be_left_out(saved):
    _, _, path = saved
    assert find_player(f"sb3:{path.with_suffix('')}", env="CartPole-v1", trust=True).agent.startswith("sb3:")


@pytest.mark.parametrize("name", list(SMALL))
@pytest.mark.parametrize("shape", [(36, 36, 4), (4, 36, 36)])
def test_an_sb3_picture_model_sees_the_same_picture_in_either_layout(name, shape):
    model = sb3_model(name, Pictures(), "CnnPolicy")  # trained on [36, 36, 4], which SB3 transposes
    assert model.observation_space.shape == (4, 36, 36)
    player = as_player(model)
    player.check_fits(Pictures(shape))
    channel_first = pictures(64, (4, 36, 36))
    shown = channel_first if shape[0] == 4 else np.moveaxis(channel_first, 1, -1)
    actions = player.act(shown, rngs(count=64), True)
    assert (actions == model.predict(channel_first, deterministic=True)[0]).all()
    assert_rows_are_their_own(player, shown[:ROWS])


def test_bytes_become_fractions_for_a_model_that_saw_fractions():
    model = sb3_model("PPO", Pictures((4, 6), np.float32, high=1), "MlpPolicy")
    player = as_player(model)
    player.check_fits(Pictures((4, 6)))
    shown = pictures(64, (4, 6))
    wanted = model.predict((shown / 255).astype(np.float32), deterministic=True)[0]
    assert (player.act(shown, rngs(count=64), True) == wanted).all()


@pytest.mark.parametrize("name", ["PPO", "A2C"])
def test_sampled_actor_critics_follow_their_distribution(name):
    import torch

    model = sb3_model(name, "CartPole-v1")
    one = vectors(1)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(300)  # initialised so small that every policy is nearly uniform
        p = model.policy.get_distribution(torch.as_tensor(one)).distribution.probs[0, 1].item()
    assert 0.02 < abs(p - 0.5) < 0.48
    drawn = as_player(model).act(np.repeat(one, 4000, axis=0), rngs(count=4000), False)
    assert abs(drawn.mean() - p) < 4 * np.sqrt(p * (1 - p) / 4000)


@pytest.mark.parametrize("name", ["DQN", "QRDQN"])
def test_sampled_q_learners_explore_at_their_rate(name):
    model = sb3_model(name, "CartPole-v1")
    model.exploration_rate = 0.4
    observations = np.repeat(vectors(1), 4000, axis=0)
    player = as_player(model)
    strayed = (player.act(observations, rngs(count=4000), False) != player.act(observations, rngs(), True)).mean()
    assert abs(strayed - 0.2) < 0.025  # half of the random actions are the best one
    model.exploration_rate = 0.0
    assert (player.act(observations, rngs(count=4000), False) == player.act(observations, rngs(), True)).all()


def test_sampled_play_leaves_the_global_generators_alone():
    import torch

    player = as_player(sb3_model("PPO", "CartPole-v1"))
    np.random.seed(0)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    player.act(vectors(), rngs(), False)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002


def test_an_sb3_model_says_which_environment_does_not_fit():
    player = as_player(sb3_model("A2C", Pictures(), "CnnPolicy"))
    with pytest.raises(ModelError, match=r"shape \(4, 36, 36\); this environment shows \(4, 40, 40\)"):
        player.check_fits(Pictures((4, 40, 40)))
    with pytest.raises(ModelError, match=r"shape \(4, 36, 36\); this environment shows \(40, 40\)"):
        player.act(pictures(shape=(40, 40)), rngs(), True)
    with pytest.raises(ModelError, match="has 3 actions and this environment 6"):
        player.check_fits(Pictures(actions=6))
    with pytest.raises(ModelError, match="sees uint8; this environment shows float32"):
        player.check_fits(Pictures(dtype=np.float32))


def test_sb3_atari_models_see_the_pictures_they_were_trained_on():
    ale = pytest.importorskip("ale_py")
    wrappers = pytest.importorskip("stable_baselines3.common.atari_wrappers")
    gym.register_envs(ale)
    settings = {"noop_max": 0, "terminal_on_life_loss": False, "clip_reward": False}
    theirs = wrappers.AtariWrapper(gym.make("MsPacmanNoFrameskip-v4"), **settings)
    ours = make_env("MsPacman", noops=0)
    (picture, _), (stack, _) = theirs.reset(seed=0), ours.reset(seed=0)
    for action in np.random.default_rng(0).integers(ours.action_space.n, size=100):
        assert (picture[..., 0] == stack[-1]).all()
        picture, reward, *_ = theirs.step(action)
        stack, score, *_ = ours.step(action)
        assert reward == score


def test_sb3_discrete_observations_are_understood():
    model = sb3_model("DQN", "FrozenLake-v1")
    states = np.arange(16)
    player = as_player(model)
    player.check_fits(gym.make("FrozenLake-v1"))
    assert (player.act(states, rngs(), True) == model.predict(states, deterministic=True)[0]).all()


def test_another_algorithm_is_refused_in_memory_and_as_a_file(tmp_path):
    pytest.importorskip("stable_baselines3")
    contrib = pytest.importorskip("sb3_contrib")
    settings = {"n_steps": 8, "batch_size": 8, "device": "cpu", "policy_kwargs": {"net_arch": [8]}}
    for kind, policy in ((contrib.TRPO, "MlpPolicy"), (contrib.RecurrentPPO, "MlpLstmPolicy")):
        model = kind(policy, "CartPole-v1", **settings)
        model.save(tmp_path / "other.zip")
        with pytest.raises(ModelError, match="DQN, PPO, A2C, QR-DQN and MaskablePPO can"):
            as_player(model)
        with pytest.raises(ModelError, match="DQN, PPO, A2C, QR-DQN and MaskablePPO can"):
            find_player(f"sb3:{tmp_path / 'other.zip'}", env="CartPole-v1", trust=True)


class Canary:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def malicious(tmp_path):
    """A DQN file, as far as its settings say, that executes code when it is read."""
    trace = tmp_path / "trace"
    bomb = base64.b64encode(pickle.dumps(Canary(trace), protocol=2)).decode()
    data = {"policy_class": {":type:": "x", ":serialized:": bomb, "__module__": "x"}, "exploration_fraction": 0.1}
    path = tmp_path / "dqn.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data", json.dumps(data))
        file.writestr("pytorch_variables.pth", pickle.dumps(Canary(trace), protocol=2))
    return path, trace


def test_without_trust_nothing_in_an_sb3_file_runs(malicious):
    path, trace = malicious
    for spec in (f"sb3:{path}", f"blind:sb3:{path}"):
        with pytest.raises(ModelError, match=r"holds pickles.*--trust"):
            find_player(spec, env="CartPole-v1")
    assert not trace.exists()


def test_the_canary_sings_with_trust(malicious):
    pytest.importorskip("stable_baselines3")
    path, trace = malicious
    with pytest.raises(ModelError, match="cannot be loaded as a DQN"):
        find_player(f"sb3:{path}", env="CartPole-v1", trust=True)
    assert trace.exists()


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x05\x06" + bytes(18)])
def test_a_file_that_is_no_sb3_model_is_refused(tmp_path, content):
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(ModelError, match="not a file that Stable-Baselines3 saved"):
        find_player(f"sb3:{tmp_path / 'x.zip'}", env="CartPole-v1", trust=True)


# --- ONNX ---


def write_graph(path, batch="B", output="logits", kind="float", shape=(4,), nodes=None, width=2):
    """`observation @ W`, or its argmax, for any batch or a fixed one."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, types = onnx.helper, onnx.TensorProto
    weights = np.random.default_rng(0).normal(size=(4, width)).astype(np.float32)
    source = helper.make_tensor_value_info("seen", types.UINT8 if kind == "uint8" else types.FLOAT, [batch, *shape])
    made = [
        helper.make_node("Cast", ["seen"], ["floats"], to=types.FLOAT),
        helper.make_node("Flatten", ["floats"], ["flat"], axis=1),
        helper.make_node("MatMul", ["flat", "W"], ["scores"]),
    ]
    if output == "action":
        made.append(helper.make_node("ArgMax", ["scores"], ["action"], axis=1, keepdims=0))
        sink = helper.make_tensor_value_info("action", types.INT64, [batch])
    else:
        made.append(helper.make_node("Identity", ["scores"], [output]))
        sink = helper.make_tensor_value_info(output, types.FLOAT, [batch, width])
    value = helper.make_tensor_value_info("value", types.FLOAT, [batch, None])
    made.append(helper.make_node("ReduceMax", ["floats"], ["value"], keepdims=0))
    tensors = [onnx.numpy_helper.from_array(weights, "W")]
    graph = helper.make_graph(made, "g", [source], [sink, value], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return weights


@pytest.mark.parametrize("batch", ["B", 1, 5, 64])
@pytest.mark.parametrize("output", ["logits", "q", "action"])
def test_a_foreign_graph_plays_whatever_its_batch(tmp_path, batch, output):
    path = tmp_path / "net.onnx"
    weights = write_graph(path, batch, output)
    player = find_player(f"onnx:{path}", env="CartPole-v1")
    player.check_fits(gym.make("CartPole-v1"))
    assert (player.act(vectors(), rngs(), True) == (vectors() @ weights).argmax(axis=1)).all()
    assert_rows_are_their_own(player, vectors())
    assert (player.agent, player.train_seed, player.step) == ("onnx:net", None, None)


def test_a_graph_for_bytes_is_given_bytes_in_its_layout(tmp_path):
    path = tmp_path / "net.onnx"
    weights = write_graph(path, kind="uint8", shape=(2, 2, 1))
    player = OnnxPlayer(path)
    player.check_fits(Pictures((1, 2, 2), actions=2))
    shown = pictures(shape=(1, 2, 2))
    assert (player.act(shown, rngs(), True) == (shown.reshape(ROWS, 4) @ weights).argmax(axis=1)).all()
    with pytest.raises(ModelError, match="sees uint8; this environment shows float32"):
        player.check_fits(Pictures((1, 2, 2), np.float32, 1, actions=2))


def test_a_graph_says_which_environment_does_not_fit(tmp_path):
    write_graph(tmp_path / "net.onnx")
    player = OnnxPlayer(tmp_path / "net.onnx")
    with pytest.raises(ModelError, match="has 2 actions and this environment 3"):
        player.check_fits(gym.make("Acrobot-v1"))
    with pytest.raises(ModelError, match=r"shape \(4,\); this environment shows \(36, 36, 4\)"):
        player.check_fits(Pictures(actions=2))


@pytest.mark.parametrize("where", ["beside.bin", "../outside.bin", "ABSOLUTE", "link.bin", "nowhere.bin"])
def test_a_graph_reads_tensors_from_files_beside_it_alone(where, tmp_path):
    onnx = pytest.importorskip("onnx")
    folder = tmp_path / "downloaded"
    folder.mkdir()
    write_graph(folder / "net.onnx")
    weights = onnx.load(folder / "net.onnx").graph.initializer[0]
    data = onnx.numpy_helper.to_array(weights).tobytes()
    for path in (tmp_path / "outside.bin", folder / "beside.bin"):
        path.write_bytes(data)
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    graph = onnx.load(folder / "net.onnx")
    before = OnnxPlayer(folder / "net.onnx").fingerprint
    onnx.external_data_helper.set_external_data(
        graph.graph.initializer[0], str(tmp_path / "outside.bin") if where == "ABSOLUTE" else where, 0, len(data)
    )
    graph.graph.initializer[0].ClearField("raw_data")
    (folder / "net.onnx").write_bytes(graph.SerializeToString())
    if where != "beside.bin":
        with pytest.raises(ModelError, match=r"onnx:net keeps tensors in .*, and only files beside the graph are read"):
            OnnxPlayer(folder / "net.onnx")
        return
    first = OnnxPlayer(folder / "net.onnx").fingerprint
    (folder / "beside.bin").write_bytes(data[::-1])
    assert len({before, first, OnnxPlayer(folder / "net.onnx").fingerprint}) == 3, "they are a part of the policy"


def test_a_file_that_is_no_graph_is_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "x.onnx").write_bytes(b"not a graph")
    with pytest.raises(ModelError, match="onnx:x cannot be read as an ONNX graph"):
        OnnxPlayer(tmp_path / "x.onnx")


# --- functions ---


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module into the current folder, and forget it afterwards."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)

    def write(text, name="my_policy"):
        (tmp_path / f"{name}.py").write_text(text)
        return tmp_path

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("my_"):
            del sys.modules[name]


def test_scores_of_a_function_are_maximised_or_sampled():
    player = as_player(linear)
    player.check_fits(gym.make("CartPole-v1"))
    assert player.agent.endswith(":linear")
    assert (player.act(vectors(), rngs(), True) == linear(vectors()).argmax(axis=1)).all()
    drawn = player.act(np.tile(np.float32([0, 0, 0.1, 0]), (4000, 1)), rngs(count=4000), False)
    p = 1 / (1 + np.exp(-0.1))
    assert abs(drawn.mean() - p) < 4 * np.sqrt(p * (1 - p) / 4000)
    assert_rows_are_their_own(player, vectors())


def test_actions_of_a_function_are_taken_as_they_are():
    player = CallablePlayer(lambda x: [i % 2 for i in range(len(x))], actions=2)
    for greedy in (True, False):
        assert player.act(vectors(), rngs(), greedy).tolist() == [0, 1] * 8


def test_a_function_is_found_in_the_current_folder_and_the_path_is_left_as_it_was(module):
    module("def act(x):\n    return [1] * len(x)\nclass Holder:\n    act = staticmethod(act)\n")
    before = list(sys.path)
    player = find_player("my_policy:act", env="CartPole-v1")
    assert sys.path == before
    assert player.agent == "my_policy:act"
    assert player.act(vectors(), rngs(), True).tolist() == [1] * ROWS
    assert find_player("my_policy:Holder.act", env="CartPole-v1").act(vectors(1), rngs(), True).tolist() == [1]


def test_an_existing_path_wins_over_a_module(module, own):
    folder = module("act = None\n")
    own.save(folder / "my_policy:act")
    assert find_player("my_policy:act").agent == "dsac-m"


@pytest.mark.parametrize(
    ("text", "spec", "message"),
    [
        ("", "my_absent:act", "no module 'my_absent'"),
        ("import my_dependency", "my_policy:act", "needs 'my_dependency', which is not installed"),
        ("1 / 0", "my_policy:act", "failed while it was imported: ZeroDivisionError: division by zero"),
        ("act = 1", "my_policy:run", "has no 'run'"),
        ("act = 1", "my_policy:act", "my_policy:act is a int, not a function"),
    ],
)
def test_a_function_that_cannot_be_had_is_named(module, text, spec, message):
    module(text)
    with pytest.raises(ConfigError, match=message) as raised:
        find_player(spec, env="CartPole-v1")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda x: [0],
            r"answered int64 of shape \(1,\); it must answer 16 actions as whole numbers, or scores",
        ),
        (lambda x: np.zeros(16), r"answered float64 of shape \(16,\)"),
        (lambda x: np.zeros((16, 3)), r"shape \(16, 3\); it must answer .* scores of shape \(16, 2\)"),
        (lambda x: np.zeros((15, 2)), r"answered float64 of shape \(15, 2\)"),
        (lambda x: "left", "answered <U4"),
        (lambda x: None, "answered object"),
        (lambda x: [2] * 16, "chose action 2, but this environment's actions are 0 to 1"),
        (lambda x: [-1] * 16, "chose action -1"),
        (lambda x: np.full((16, 2), np.nan), "answered NaN"),
        (lambda x: x["left"], "mine failed: IndexError"),
    ],
)
def test_a_wrong_answer_of_a_function_is_told(answer, message):
    player = CallablePlayer(answer, "mine", actions=2)
    with pytest.raises(ModelError, match=message) as raised:
        player.act(vectors(), rngs(), True)
    assert "\n" not in str(raised.value)


# --- by name ---


def test_a_saved_agent_is_found_with_its_environment(tmp_path, own):
    own.save(tmp_path / "agent")
    for source in (str(tmp_path / "agent"), str(tmp_path / "agent.safetensors")):
        player = find_player(source)
        assert (player.act(vectors(), rngs(), True) == own.predict(vectors(), True)[0]).all()
    blind = find_player(f"blind:{tmp_path / 'agent'}")
    assert (blind.agent, blind.env) == ("blind dsac-m", "CartPole-v1")
    assert len(set(blind.act(vectors(), rngs(), True))) == 1


def test_random_takes_its_actions_from_the_environment():
    assert find_player("random", env="Acrobot-v1").actions == 3
    assert as_player("random", env=Pictures).actions == 3


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("random", "random needs an environment to play; give --env"),
        ("sb3:nowhere.zip", "there is no file nowhere.zip"),
        ("onnx:nowhere.onnx", "there is no file nowhere.onnx"),
        ("onnx:", "'onnx:' names no agent; write onnx:FILE"),
        ("blind:", "write blind:RUN"),
        ("blind:nowhere", "there is no saved agent nowhere.safetensors, nor a run folder nowhere"),
        ("nowhere", "there is no saved agent nowhere.safetensors, nor a run folder nowhere"),
        ("json:dumps", "json:dumps does not say which environment it plays; give --env"),
    ],
)
def test_a_name_that_leads_nowhere_is_told(spec, message):
    with pytest.raises(BadInput, match=message):
        find_player(spec)


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    write_graph(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match="`pip install onnx onnxruntime` installs it"):
        OnnxPlayer(tmp_path / "net.onnx")


def test_a_python_user_may_hand_over_what_they_have(own):
    player = OwnPlayer(own)
    assert as_player(player) is player
    assert isinstance(as_player(own), OwnPlayer)
    assert isinstance(as_player(linear), CallablePlayer)
    assert isinstance(as_player(sb3_model("A2C", "CartPole-v1")), SB3Player)
    with pytest.raises(ConfigError, match="a int cannot be evaluated"):
        as_player(3)


def test_what_a_player_and_an_agent_must_have_is_written_down(own):
    class Half:
        """Looks like a player and like a Stable-Baselines3 model, and is neither."""

        agent, policy = "half", None

        def act(self, observations, rngs, greedy): ...

        def check_fits(self, env): ...

        def predict(self, observations): ...

    class Whole(Half):
        train_seed = step = env = fingerprint = None

    whole = Whole()
    assert as_player(whole) is whole
    with pytest.raises(ConfigError, match="a Half cannot be evaluated"):
        as_player(Half())
    stand_in = SimpleNamespace(config=own.config, step=7, logits=own.logits)
    assert as_player(stand_in).step == 7


def test_no_foreign_library_is_loaded_to_tell_agents_apart():
    code = "import sys; from dsacc.play.adapters import as_player; as_player(len); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "dsacc" in done.stdout.split()
    assert not {"stable_baselines3", "sb3_contrib", "onnxruntime"} & set(done.stdout.split())


@pytest.mark.parametrize("averaged", [False, True])
def test_a_player_is_known_by_the_weights_that_act(averaged):
    model = DSAC("CartPole-v1", shared_trunk=True, average_policy=averaged, hidden=8)
    learner, known = model.learner, OwnPlayer(model).fingerprint
    acting, resting = (learner.target_actor, learner.actor) if averaged else (learner.actor, learner.target_critics)
    for network, changes in ((resting, False), (acting, True)):
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(1.0)
        assert (OwnPlayer(model).fingerprint != known) == changes
