"""How often does a student choose what its teacher chooses, in weather? Cheaper than games: recipes are chosen by it.

    python benchmarks/agreement.py docs/studies/agents/Breakout-dsac-m-s0.safetensors
    python benchmarks/agreement.py AGENT --only "as it is" "as a copy" --updates 8000 --states 20000

AGENT is an agent of dsacc. Its students learn from states of its own play, without rounds of theirs. Then both are
asked about 600 states of other games, the teacher on the clean picture, the student clean and in each weather, with its
own draw in each of the four frames. Each line has, by condition: the share of states in which they choose the same
action; the same for the half of the states in which the teacher is surest; and KL(teacher || student).
"""

import argparse
import json
import time
from contextlib import closing
from typing import Any

import numpy as np

from dsacc import DSAC
from dsacc.envs import check_actions
from dsacc.hardening.distil import NEW, RATE, new_student
from dsacc.hardening.states import collect
from dsacc.hardening.teacher import Teacher
from dsacc.hardening.work import AUGMENTED, CLEAN, STATES, Recipe, Work
from dsacc.play.adapters import as_player
from dsacc.play.source import find_source
from dsacc.shifts.bank import bank
from dsacc.shifts.kinds import find_kind
from dsacc.shifts.layout import Layout
from dsacc.system.memory import keep_freed_memory
from dsacc.system.threads import use_one_thread
from dsacc.system.types import Array

WEATHER = ("snow", "rain", "fog")
TESTED = 600  # states
SHOWN = (CLEAN, AUGMENTED)  # states per update as they are
RESCALED = {"layer_norm": False, "rescale_features": True}
# What differs from `dsacc harden` as it is: its keywords; `settings` of a new student; `states` per update.
RECIPES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "8 clean and 24 augmented": {"states": (8, 24)},
    "16 clean and 16 augmented": {"states": (16, 16)},
    "near": {"augment": "near"},
    "trained on snow": {"augment": "snow"},
    "through high-pass": {"picture_filter": "high-pass"},
    "through no filter": {"picture_filter": "none"},
    "rescaled features": {"settings": RESCALED},
    "neither norm nor rescaled": {"settings": {**RESCALED, "rescale_features": False}},
    "encoder nature": {"settings": {**NEW, "encoder": "nature"}},
    "as a copy": {"fresh": False},
}


def in_weather(states: Array, shift: str) -> Array:
    """Each frame of each state with its own draw of the weather."""
    layout, rng = Layout(states.shape[1:], None), np.random.default_rng(5)
    drawn = bank(find_kind(shift), None, layout.pictures[1:], seed=77, size=512)
    shown = np.empty_like(states)
    for i, state in enumerate(states):
        pictures = layout.split(state)
        for k, picture in enumerate(pictures):
            pictures[k] = drawn[int(rng.integers(len(drawn)))](np.ascontiguousarray(picture))
        shown[i] = layout.join(pictures)
    return shown


def learn(agent: str, name: str, states: Array, updates: int) -> Work:
    """The student of one recipe, after its last update."""
    asked = RECIPES[name]
    player = as_player(DSAC.load(agent))
    make = find_source(player, None, together=True, trust=False).make
    recipe = Recipe((asked.get("augment", "generic"),), updates, len(states), rounds=0)
    with closing(make()) as env:
        teacher = Teacher(player, check_actions(env))
        begun = {"fresh": asked.get("fresh", True), "changed": asked.get("settings", NEW)}
        model = new_student(teacher, env, recipe, asked.get("picture_filter"), **begun)
    student = Work(model, teacher, make, recipe, RATE, asked.get("states", SHOWN))
    student.add(0, states)
    for _ in student.steps(lambda: None):
        pass
    student.student.publish()
    return student


def compare(student: Work, tested: dict[str, Array]) -> dict[str, str]:
    assert student.teacher.model is not None
    log_p, found = _log_softmax(student.teacher.model.logits(tested["id"])), {}
    sure = log_p.max(axis=1) >= np.median(log_p.max(axis=1))
    for shift, states in tested.items():
        log_q = _log_softmax(student.model.logits(states))
        same = log_p.argmax(axis=1) == log_q.argmax(axis=1)
        divergence = (np.exp(log_p) * (log_p - log_q)).sum(axis=1).mean()
        found[shift] = f"{same.mean():.2f} / {same[sure].mean():.2f} / {divergence:.2f}"
    return found


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agent", help="run folder or saved agent of dsacc")
    parser.add_argument("--only", nargs="+", choices=RECIPES, default=list(RECIPES), help="recipes")
    parser.add_argument("--updates", type=int, default=8_000, help="of each student")
    parser.add_argument("--states", type=int, default=STATES, help="to learn from")
    args = parser.parse_args()
    use_one_thread()
    keep_freed_memory()
    player = as_player(DSAC.load(args.agent))
    make = find_source(player, None, together=True, trust=False).make
    states, held = (
        np.stack(list(collect(player.act, make, count, np.random.SeedSequence(seed))))
        for count, seed in ((args.states, 990), (TESTED, 991))
    )
    tested = {"id": held, **{shift: in_weather(held, shift) for shift in WEATHER}}
    for name in args.only:
        began = time.process_time()
        student = learn(args.agent, name, states, args.updates)
        line = {"recipe": name, "updates": args.updates, "states": args.states, **compare(student, tested)}
        print(json.dumps({**line, "CPU s": round(time.process_time() - began)}), flush=True)


if __name__ == "__main__":
    main()
