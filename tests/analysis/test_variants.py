"""Agents that differ in more than their seed have different names."""

from dsacc.analysis.variants import Contender, made_with, told_apart


def own(agent="dsac-m", game="CartPole-v1", seed=0, identity=None, file="run", recipe=(), **settings):
    settings = {"seed": seed, "gamma": 0.99, **settings}
    return Contender(agent, game, settings, dict(recipe), seed, identity or (agent, file), file)


def test_only_a_seed_is_no_difference():
    assert told_apart([own(seed=0), own(seed=1, log_every=7)]) == ["dsac-m", "dsac-m"]


def test_a_setting_that_differs_is_a_part_of_both_names():
    assert told_apart([own(), own(seed=1, gamma=0.5)]) == ["dsac-m, gamma 0.99", "dsac-m, gamma 0.5"]


def test_runs_of_another_length_or_with_other_wrappers_have_other_names():
    record = {"settings": {"gravity": 20}, "wrappers": ["Flip", "Clip"]}
    short, long = (own(**made_with({}, None, steps)) for steps in (600, 1200))
    assert told_apart([short, long]) == ["dsac-m, steps 600", "dsac-m, steps 1200"]
    plain, wrapped = (own(**made_with({}, found)) for found in ({"settings": {}, "wrappers": []}, record))
    assert told_apart([plain, wrapped]) == [
        "dsac-m, wrappers none, gravity None",
        "dsac-m, wrappers Flip, Clip, gravity 20",
    ]


def test_games_are_apart_already():
    assert told_apart([own(), own(game="Acrobot-v1", gamma=0.5)]) == ["dsac-m", "dsac-m"]


def test_two_trained_agents_of_one_seed_are_named_after_their_folders():
    assert told_apart([own(file="a/first"), own(file="b/second/")]) == ["dsac-m, first", "dsac-m, second"]
    assert told_apart([own(file="a/run"), own(file="b/run")]) == ["dsac-m, a/run", "dsac-m, b/run"]
    assert told_apart([own(identity=1), own(identity=1, file="copy")]) == ["dsac-m", "dsac-m"]


def test_several_agents_of_another_library_are_named_after_their_files():
    def sb3(file, seed):
        return Contender("sb3:PPO", "CartPole-v1", seed=seed, identity=file, file=file, foreign=True)

    assert told_apart([sb3("ppo_a.zip", 0)]) == ["sb3:PPO"]
    assert told_apart([sb3("x/ppo_a.zip", 0), sb3("x/ppo_b.zip", 1)]) == ["sb3:PPO, ppo_a", "sb3:PPO, ppo_b"]


def test_a_student_keeps_the_name_of_its_teacher_and_what_differs_in_its_recipe_comes_last():
    few, many = ({"updates": n, "fingerprint": n} for n in (10, 20))
    names = told_apart([own(), own(gamma=0.5), own("dsac-m, hardened", gamma=0.5, recipe=few, file="student")])
    assert names == ["dsac-m, gamma 0.99", "dsac-m, gamma 0.5", "dsac-m, gamma 0.5, hardened"]
    names = told_apart([own(), own("dsac-m, hardened", recipe=few), own("dsac-m, hardened", recipe=many, file="s")])
    assert names == ["dsac-m", "dsac-m, hardened (updates 10)", "dsac-m, hardened (updates 20)"]
