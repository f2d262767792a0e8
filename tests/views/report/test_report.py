"""What is in the page and in the files beside it, for complete, incomplete and damaged folders."""

import csv
import json
import re
import shlex
import shutil
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from helpers.pdflatex import complaints, needs_pdflatex
from helpers.quick_pictures import quick_pictures  # noqa: F401 - used by every test here
from helpers.studies import NINE, THREE, change_rows, synthetic_study
from PIL import Image

from dsacc.analysis.names import display_name
from dsacc.analysis.results import collect
from dsacc.analysis.rows import Row
from dsacc.cli import build_parser, main
from dsacc.config import Config
from dsacc.errors import ConfigError, RunError
from dsacc.experiments.task import TaskFile
from dsacc.play.store import read_rows
from dsacc.system.files import sha256
from dsacc.system.seals import sealed
from dsacc.system.text import printable
from dsacc.views.report import write_report
from dsacc.views.report.drawing import Style
from dsacc.views.report.films import films, shoot
from dsacc.views.report.progress import _thinned, diagnostic_figures, learning_figures
from dsacc.views.report.reproduce import train_command
from dsacc.views.report.series import at_the_end, check_curves, curves, moving_average
from dsacc.views.report.study import read_study
from dsacc.views.report.tables import multiplier_table


def text_of(page) -> str:
    """What a reader sees, without the figures."""
    content = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.S)
    kept: list[str] = []
    parser = HTMLParser()
    parser.handle_data = kept.append  # type: ignore[method-assign]
    parser.feed(content)
    return " ".join(" ".join(kept).split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    synthetic_study(out, games=("Breakout", "UpNDown"), agents=THREE, points=30)
    return write_report(out)


# --- files -----------------------------------------------------------------------------------------------------------


@needs_pdflatex
def test_every_latex_file_compiles_and_fits_its_pages(made, tmp_path):
    files = sorted((made.parent / "report_files" / "tables").glob("*.tex"))
    assert [file.stem for file in files] == ["multiplier", "results", "runs", "scores", "verdict"]
    assert complaints([file.read_text(encoding="utf-8") for file in files], tmp_path) == []


# --- reading ---------------------------------------------------------------------------------------------------------


def test_an_experiment_a_folder_of_runs_and_a_run_can_be_read(tmp_path):
    plan = synthetic_study(tmp_path / "x", points=5)
    study = read_study(tmp_path / "x")
    assert (len(study.runs), len(study.rows), study.planned) == (6, 48, True)
    assert len(read_study(tmp_path / "x" / "runs").rows) == 48
    one = read_study(tmp_path / "x" / "runs" / plan.names[0])
    assert ([r.name for r in one.runs], len(one.rows)) == ([plan.names[0]], 8)
    assert one.runs[0].seconds == pytest.approx(100_000 / 55, abs=0.01)


def test_results_without_their_runs_still_make_a_page(tmp_path):
    synthetic_study(tmp_path / "x", points=5, labels=("plain", "odd"))
    (tmp_path / "y").mkdir()
    (tmp_path / "x" / "results.json").rename(tmp_path / "y" / "results.json")
    study = read_study(tmp_path / "y")
    assert study.agents == ["dsac, plain", "dsac-m, plain", "dsac, odd", "dsac-m, odd"]
    assert "nothing is known about the training" in text_of(write_report(tmp_path / "y"))


def test_an_empty_folder_is_a_sentence(tmp_path, capsys):
    with pytest.raises(RunError, match="holds no experiment and no runs"):
        read_study(tmp_path)
    assert main(["report", str(tmp_path)]) == 2
    assert "holds no experiment" in capsys.readouterr().err


def test_a_page_says_which_runs_warned(tmp_path):
    plan = synthetic_study(tmp_path, points=5)
    TaskFile(tmp_path, plan.names[1]).warn("alpha is 1e+05 at step 60000 <b>")
    assert f"{plan.names[1]} warned: alpha is 1e+05 at step 60000 <b>." in read_study(tmp_path).notes
    assert "60000 &lt;b&gt;" in write_report(tmp_path).read_text(encoding="utf-8")


def test_missing_and_failed_runs_are_shown_as_missing(tmp_path):
    plan = synthetic_study(tmp_path, points=5)
    failed, never = plan.names[0], plan.names[4]
    folder = tmp_path / "runs" / failed
    (tmp_path / "tasks" / f"{failed}.json").write_text(
        json.dumps({"state": "failed", "error": "TrainingDiverged: alpha is not finite", "steps": 100_000})
    )
    (folder / "status.json").write_text(json.dumps({"state": "failed", "step": 40_000, "steps": 100_000}))
    for path in (folder / "evaluations").glob("*.json"):
        path.unlink()
    for path in sorted((tmp_path / "runs" / never).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "runs" / never).rmdir()
    (tmp_path / "tasks" / f"{never}.json").unlink()
    study = read_study(tmp_path)
    assert [(r.name, r.state) for r in study.missing] == [(failed, "failed"), (never, "waiting")]
    page = text_of(write_report(tmp_path))
    assert "2 of 6 runs are missing" in page
    assert f"{failed} failed at step 40,000: TrainingDiverged: alpha is not finite" in page
    assert f"{never} waiting at step 0" in page


def test_an_agent_that_has_not_begun_is_in_no_legend(tmp_path):
    plan = synthetic_study(tmp_path, seeds=1, points=5)
    for run in plan.runs:
        if run.agent == "dsac-m":
            shutil.rmtree(tmp_path / "runs" / run.name)
    (tmp_path / "results.json").unlink(missing_ok=True)
    html = write_report(tmp_path).read_text(encoding="utf-8")
    legends = re.findall(r'<ul class="legend".*?</ul>', html, re.DOTALL)
    assert legends
    assert all("DSAC" in legend and "DSAC-M" not in legend for legend in legends)


def test_tests_on_the_way_are_in_no_table(tmp_path):
    plan = synthetic_study(tmp_path, seeds=1, points=5)
    folder = tmp_path / "runs" / plan.names[0]
    for path in (folder / "evaluations").glob("*.json"):
        change_rows(path, '"step": 100000', '"step": 50000')
    study = read_study(tmp_path)
    assert [r.name for r in study.missing] == [plan.names[0]]
    assert any("not at the end of its training" in note for note in study.notes)


def test_damaged_files_are_left_out_and_said(tmp_path):
    plan = synthetic_study(tmp_path, seeds=2, points=8)
    first, second = (tmp_path / "runs" / name for name in plan.names[:2])
    lines = (first / "metrics.jsonl").read_text().splitlines()
    (first / "metrics.jsonl").write_text(
        "\n".join([*lines[:3], "{", "[1]", '{"step": "x"}', *lines[3:], '{"step": 99'])
    )
    (second / "config.json").write_text("{")
    (second / "timing.jsonl").write_bytes(b"\xff\xfe\n")
    study = read_study(tmp_path)
    assert [len(r.metrics) for r in study.runs[:2]] == [8, 8]
    said = " ".join(study.notes)
    for words in (
        "3 damaged lines",
        "config.json cannot be read as JSON",
        "metrics of 4 runs were written before dsacc kept their sha256, and are shown unchecked",
    ):
        assert words in said
    assert "3 damaged lines" in text_of(write_report(tmp_path))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("no JSON", "Expecting value"),
        ("[" * 10_000 + "]" * 10_000, "it is nested more than 100 deep"),
        ('[{"env": ' + "[" * 990 + "]" * 990 + "}]", "it is nested more than 100 deep"),
        ({"returns": [float("nan")], "lengths": [1]}, "it has NaN where a finite number must be"),
        ({"train_seed": "0"}, "row 1 of 1: a row of tests has '0' as 'train_seed'"),
        ({"returns": [3.0] * 10}, "row 1 of 1: a row of tests does not match its sha256"),
    ],
)
def test_a_damaged_row_is_refused_and_the_file_and_what_to_do_are_named(damage, why, tmp_path, capsys):
    plan = synthetic_study(tmp_path, seeds=2, points=8)
    path = sorted((tmp_path / "runs" / plan.names[0] / "evaluations").glob("*.json"))[1]
    row = json.loads(path.read_text())[0]
    path.write_text(damage if isinstance(damage, str) else json.dumps([{**row, **damage}]))
    assert main(["report", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"dsacc: {path} is damaged: {why}")
    assert line.endswith(
        "; `dsacc evaluate` with the same options plays it again; or delete the file, to go on without it"
    )
    assert not (tmp_path / "report.html").exists()


def test_rows_without_a_checksum_are_shown_and_said_once(tmp_path, capsys):
    synthetic_study(tmp_path, seeds=2, points=8, policy=("greedy",))
    for path in tmp_path.glob("runs/*/evaluations/*.json"):
        path.write_text(json.dumps([{k: v for k, v in json.loads(path.read_text())[0].items() if k != "sha256"}]))
    assert main(["report", str(tmp_path)]) == 0
    said = "16 rows of tests were written before rows carried a sha256, and count unchecked"
    assert [line for line in capsys.readouterr().err.splitlines() if "sha256" in line] == [f"dsacc: warning: {said}"]
    assert text_of(tmp_path / "report.html").count(said) == 1


def test_results_whose_rows_were_changed_are_refused(tmp_path, capsys):
    synthetic_study(tmp_path / "x", seeds=1, points=5)
    (tmp_path / "y").mkdir()
    rows = [Row.from_json(row).sealed() for row in json.loads((tmp_path / "x" / "results.json").read_text())]
    (tmp_path / "y" / "results.json").write_text(json.dumps(rows))
    assert main(["report", str(tmp_path / "y")]) == 0
    rows[3]["returns"][0] += 1
    (tmp_path / "y" / "results.json").write_text(json.dumps(rows))
    assert main(["report", str(tmp_path / "y")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"results.json is damaged: row 4 of {len(rows)}: a row of tests does not match its sha256" in said


def with_records(run):
    """A synthetic run with the status that dsacc writes: sealed, and with the sha256 of the logs."""
    status = json.loads((run / "status.json").read_text())
    data = {name: (run / name).read_bytes() for name in ("metrics.jsonl", "timing.jsonl")}
    logs = {name: {"bytes": len(text), "sha256": sha256(text)} for name, text in data.items()}
    (run / "status.json").write_text(json.dumps(sealed({**status, "logs": logs})))


def test_metrics_that_were_changed_are_refused_and_times_left_out(tmp_path, capsys):
    plan = synthetic_study(tmp_path, seeds=1, points=5, policy=("greedy",))
    runs = [tmp_path / "runs" / name for name in plan.names]
    for run in runs:
        with_records(run)
    study = read_study(tmp_path)
    assert study.notes == []
    assert all(run.seconds for run in study.runs)
    timing = runs[0] / "timing.jsonl"
    timing.write_text(timing.read_text().replace("55.0", "56.0", 1))
    study = read_study(tmp_path)
    assert [run.seconds is None for run in study.runs] == [True, False]
    assert "timing.jsonl does not match its sha256" in study.notes[0]
    metrics = runs[1] / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"alpha": 0.1', '"alpha": 0.3', 1))
    assert main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"dsacc: {metrics} does not match its sha256, so it was changed after it was written; restore it, or move "
        "it away to have the page without its curves"
    )
    metrics.unlink()
    assert main(["report", str(tmp_path)]) == 0


def test_a_status_that_was_changed_is_said_and_not_used(tmp_path):
    plan = synthetic_study(tmp_path, seeds=1, points=5)
    status = tmp_path / "runs" / plan.names[0] / "status.json"
    with_records(status.parent)
    status.write_text(status.read_text().replace('"step": 100000', '"step": 900000'))
    study = read_study(tmp_path)
    assert study.runs[0].step == 0
    assert "status.json does not match its sha256" in " ".join(study.notes)


def test_a_damaged_plan_leaves_the_runs(tmp_path):
    synthetic_study(tmp_path, seeds=1, points=5)
    (tmp_path / "plan.json").write_text("{")
    study = read_study(tmp_path)
    assert len(study.runs) == 2
    assert "plan.json cannot be used" in study.notes[0]


def test_a_plan_does_not_lead_out_of_its_folder(tmp_path):
    synthetic_study(tmp_path / "x", seeds=1, points=5)
    plan = json.loads((tmp_path / "x" / "plan.json").read_text())
    plan["runs"][0]["name"] = "../../elsewhere"
    (tmp_path / "x" / "plan.json").write_text(json.dumps(sealed(plan)))
    assert [r.name for r in read_study(tmp_path / "x").runs] == [plan["runs"][1]["name"]]


def test_runs_with_other_settings_are_told_apart_without_a_plan(tmp_path):
    plan = synthetic_study(tmp_path / "x", seeds=2, points=5, labels=("", "more noise"), agents=("dsac-m",))
    assert read_study(tmp_path / "x").agents == ["dsac-m", "dsac-m, more noise"]
    by_folder = sorted(plan.runs, key=lambda run: run.name)
    settings = dict.fromkeys(f"dsac-m, noise_std {run.config.noise_std}" for run in by_folder)
    assert read_study(tmp_path / "x" / "runs").agents == list(settings)
    assert len(settings) == 2


def test_a_run_from_before_a_setting_was_there_counts_as_one_with_its_default(tmp_path):
    plan = synthetic_study(tmp_path / "x", seeds=2, points=5, agents=("dsac-m",))
    path = tmp_path / "x" / "runs" / plan.names[0] / "config.json"
    content = json.loads(path.read_text())
    assert content["config"].pop("dueling") is False
    path.write_text(json.dumps(sealed({k: v for k, v in content.items() if k != "sha256"})))
    assert read_study(tmp_path / "x" / "runs").agents == ["dsac-m"]


def test_the_clock_of_a_continued_run_is_added_up(tmp_path):
    plan = synthetic_study(tmp_path, seeds=1, points=5)
    path = tmp_path / "runs" / plan.names[0] / "timing.jsonl"
    path.write_text("".join(f'{{"step": {i}, "seconds": {s}}}\n' for i, s in enumerate([10, 20, 5, 7, 1])))
    assert read_study(tmp_path).runs[0].seconds == 28


def test_printable_leaves_nothing_that_moves_a_cursor():
    assert printable("a\x1b[31m\u202eb\ud800\n") == "a [31m b"


# --- curves ----------------------------------------------------------------------------------------------------------


def test_the_moving_average_is_of_the_last_ten():
    x = np.arange(30.0)
    assert moving_average(x)[[0, 4, 9, 29]].tolist() == [0.0, 2.0, 4.5, 24.5]


def test_a_curve_is_the_mean_of_the_seeds_that_got_so_far(tmp_path):
    plan = synthetic_study(tmp_path, seeds=2, agents=("dsac",), points=4)
    values = {0: [1, None, 3, 5], 1: [3, 3]}  # too few to be smoothed
    for run in plan.runs:
        rows = [{"step": 25 * (i + 1), "return": v} for i, v in enumerate(values[run.seed])]
        path = tmp_path / "runs" / run.name / "metrics.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (curve,) = curves(read_study(tmp_path).runs, ["dsac"], "Breakout", "return")
    assert curve.steps.tolist() == [25, 50, 75, 100]
    assert curve.mean.tolist() == [2.0, 2.5, 3.0, 5.0]
    assert curve.count.tolist() == [2, 2, 1, 1]
    assert curve.std[0] == pytest.approx(np.sqrt(2))
    assert np.isnan(curve.std[2:]).all()


def test_tests_on_the_way_make_curves_greedy_and_sampled_and_stay_out_of_the_table(tmp_path):
    plan = synthetic_study(tmp_path, seeds=2, points=10, checks=3)
    study = read_study(tmp_path)
    assert study.checked == [("Breakout", "clean", "greedy"), ("Breakout", "clean", "sampled")]
    assert len(study.rows) == len(plan.runs) * 8
    (curve,) = check_curves(study.runs, ["dsac-m"], "Breakout", "clean", "sampled")
    assert curve.steps.tolist() == [25_000, 50_000, 75_000, 100_000]
    folder = tmp_path / "runs" / next(run.name for run in plan.runs if (run.agent, run.seed) == ("dsac-m", 1))
    rows = [r for r in read_rows(folder / "evaluations") if (r.step, r.policy) == (50_000, "sampled")]
    assert curve.seeds[1].raw[1] == pytest.approx(rows[0].mean)
    page = write_report(tmp_path)
    assert page.read_text().count("tests with greedy actions</figcaption>") == 1
    assert page.read_text().count("tests with sampled actions</figcaption>") == 1
    with open(tmp_path / "report_files" / "tables" / "tests_on_the_way.csv") as file:
        assert {line["step"] for line in csv.DictReader(file)} == {"25000", "50000", "75000", "100000"}


def test_a_study_without_tests_on_the_way_has_none(made):
    assert read_study(made.parent).checked == []
    assert ", tests with" not in text_of(made)


def test_a_held_multiplier_is_at_no_bound_that_it_does_not_have(tmp_path):
    """A run with fixed_lambda logs that λ is at its bounds, which are both 0.8."""
    plan = synthetic_study(tmp_path, seeds=2, points=20, labels=("solved", "constant lambda 0.8"))
    for run in plan.runs:
        if run.label != "solved" and run.agent == "dsac-m":
            folder = tmp_path / "runs" / run.name
            config = json.loads((folder / "config.json").read_text())
            config["config"]["fixed_lambda"] = 0.8
            (folder / "config.json").write_text(json.dumps(config))
            rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
            rows = [{**row, "lambda": 0.8, "lambda_at_lower": 1.0, "lambda_at_upper": 1.0} for row in rows]
            (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = multiplier_table(read_study(tmp_path))
    lines = {line[1].text: dict(zip(table.header, line, strict=True)) for line in table.lines}
    held, control = lines["DSAC-M, constant lambda 0.8"], lines["DSAC, constant lambda 0.8"]
    assert (held["λ"].value, held["λ at 0"].value, held["λ at 1"].value) == pytest.approx((0.8, 0.0, 0.0))
    assert "λ is held at 0.8" in " ".join(table.notes)
    assert (control["λ"].text, control["λ at 0"].text) == ("-", "-")
    assert control["entropy"].value is not None
    assert lines["DSAC-M, solved"]["λ at 0"].value == pytest.approx(0.3, abs=0.02)


def test_the_end_of_training_is_its_last_tenth_of_runs_that_got_there(tmp_path):
    plan = synthetic_study(tmp_path, seeds=2, agents=("dsac-m",), points=20)
    first, second = (tmp_path / "runs" / name for name in plan.names)
    for folder, late in ((first, 0.5), (second, 0.9)):
        rows = [{"step": 5_000 * i, "lambda": 0.1 if i <= 18 else late, "entropy": 1.0} for i in range(1, 21)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert at_the_end(read_study(tmp_path).runs, "dsac-m", "Breakout", "lambda") == pytest.approx([0.5, 0.9])
    (line,) = multiplier_table(read_study(tmp_path)).lines
    assert "0.700 ± 0.283" in [cell.text for cell in line]
    (second / "status.json").write_text(json.dumps({"state": "stopped", "step": 99_000, "steps": 100_000}))
    (tmp_path / "tasks" / f"{plan.names[1]}.json").unlink()
    assert at_the_end(read_study(tmp_path).runs, "dsac-m", "Breakout", "lambda") == pytest.approx([0.5])


def test_what_can_be_read_along_a_curve_is_logged_and_not_too_much(tmp_path):
    synthetic_study(tmp_path, seeds=2, points=1_000)
    study = read_study(tmp_path)
    drawn = learning_figures(study, {a: Style(i) for i, a in enumerate(study.agents)}, {"Breakout": "Breakout"})
    values = drawn["Breakout"].values
    assert values is not None
    assert len(values["steps"]) == 100
    for line in values["lines"]:
        for seed, run in zip(
            line["raw"], [r for r in study.runs if display_name(r.agent) == line["name"]], strict=True
        ):
            known = {row["step"]: row.get("return") for row in run.metrics}
            for step, value in zip(values["steps"], seed, strict=True):
                assert value == (None if known[step] is None else pytest.approx(known[step], rel=1e-3))
    assert len(drawn["Breakout"].inline) < 100_000


def test_a_thinned_line_keeps_its_highest_and_its_lowest_point():
    raw = np.random.default_rng(0).normal(size=5_000)
    raw[[777, 4_001]] = 30.0, -30.0
    steps, thin = _thinned(np.arange(5_000.0), raw)
    assert len(steps) <= 202
    assert (steps[0], steps[-1]) == (0, 4_999)
    assert (np.diff(steps) > 0).all()
    assert (thin.max(), thin.min()) == (30.0, -30.0)


# --- the page --------------------------------------------------------------------------------------------------------


def test_the_table_holds_the_statistics_the_papers_figures_random_and_human(made):
    page = made.read_text(encoding="utf-8")
    rows = [row for path in (made.parent / "runs").glob("*/evaluations") for row in read_rows(path)]
    for results in collect(rows)[0]:
        for scores in results.scores.values():
            assert f'data-value="{scores.mean}"' in page
    words = text_of(made)
    for figure in ("paper: 27.51 ± 3", "paper: 4234.07 ± 840‡", "cannot be right", "1.7", "30.5", "11693.2", "Overall"):
        assert figure in words


def test_the_verdict_comes_first_and_says_what_is_not_shown(made):
    words = text_of(made)
    assert words.index("How sure:") < words.index("DSAC-M against DSAC:") < words.index("Raw scores")
    assert "DSAC-V against DSAC:" in words
    assert "10 comparisons are made here" in words
    assert "3 seeds make a 95 % interval too narrow" in words
    assert "trained for 1,000,000 steps, these for 100,000" in words


def test_figures_and_tables_are_beside_the_page(made):
    files = made.parent / "report_files"
    names = {path.name for path in (files / "figures").iterdir()}
    for name in ("learning-Breakout", "lambda-UpNDown", "error-Breakout", "improvement-p0", "gap-p1", "profile-p0-0"):
        assert {f"{name}.svg", f"{name}.png"} <= names
    with Image.open(files / "figures" / "learning-Breakout.png") as picture:
        assert picture.width > 500
    whole = ("results", "scores", "verdict", "multiplier", "runs")
    assert {path.name for path in (files / "tables").iterdir()} == {
        *(f"{name}.{end}" for name in whole for end in ("csv", "md", "tex")), "beside_paper.csv", "curves.csv",
    }  # fmt: skip
    with open(files / "tables" / "curves.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 3 * 30
    logged = json.loads(
        next((made.parent / "runs").glob("Breakout-dsac-m-s1-*/metrics.jsonl")).read_text().splitlines()[7]
    )
    row = next(r for r in rows if (r["game"], r["agent"], r["seed"], r["step"]) == ("Breakout", "dsac-m", "1", "26666"))
    assert float(row["lambda"]) == pytest.approx(logged["lambda"], rel=1e-9)
    with open(files / "tables" / "beside_paper.csv") as file:
        beside = list(csv.DictReader(file))
    assert {(r["paper_mean"], r["random"], r["human"]) for r in beside if r["game"] == "Breakout"} >= {
        ("47.07", "1.7", "30.5")
    }
    assert {r["bbf_100k"] for r in beside if r["game"] == "Breakout"} == {"370.6"}


def test_the_score_table_has_both_ways_of_acting_beside_each_other_and_the_papers_figure_once(made):
    with open(made.parent / "report_files" / "tables" / "scores.csv") as file:
        lines = list(csv.DictReader(file))
    clean = [line for line in lines if line["condition"] == "clean"]
    names = [f"{agent} ({how})" for agent in ("DSAC", "DSAC-M", "DSAC-V") for how in ("greedy", "sampled")]
    assert [line["agent"] for line in clean] == names
    assert [("paper" in line["Breakout"]) for line in clean] == [True, False] * 3
    rows = [row for path in (made.parent / "runs").glob("*/evaluations") for row in read_rows(path)]
    for results in collect(rows)[0]:
        line = next(line for line in clean if line["agent"] == f"DSAC-M ({results.policy})")
        (scores,) = (
            s for (where, a, g), s in results.scores.items() if where.clean and (a, g) == ("dsac-m", "Breakout")
        )
        assert float(line["Breakout"].split(" ")[0]) == pytest.approx(scores.mean, abs=0.01)
    published = [line["agent"] for line in lines if line["condition"] == "published"]
    assert published == ["SAC (2019)", "DER", "SPR", "DrQ(ε)", "EfficientZero", "BBF", "SAC-BBF"]


def test_tables_are_files_in_three_forms_with_the_words_of_the_verdict(made):
    files = made.parent / "report_files" / "tables"
    with open(files / "verdict.csv") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * 2 * 5
    undecided = [line["in words"] for line in lines if line["verdict"] == "not decided"]
    assert undecided
    assert all("neither a difference nor its absence is shown" in words for words in undecided)
    assert "| greedy | clean | DSAC-M |" in (files / "verdict.md").read_text()
    assert r"$\lambda$ at 0" in (files / "multiplier.tex").read_text()


def test_links_lead_to_files_that_are_there(made):
    links = re.findall(r'(?:href|src)="([^"#][^"]*)"', re.sub(r"<svg.*?</svg>", "", made.read_text(), flags=re.S))
    local = [link for link in links if not link.startswith("data:")]
    assert len(local) > 20
    assert [link for link in local if not (made.parent / link).is_file()] == []


def test_the_same_input_gives_the_same_bytes(tmp_path):
    synthetic_study(tmp_path, seeds=2, points=20)

    def everything() -> dict[str, bytes]:
        write_report(tmp_path)
        files = [tmp_path / "report.html", *sorted((tmp_path / "report_files").rglob("*.*"))]
        return {str(path): path.read_bytes() for path in files}

    assert everything() == everything()


def test_a_page_made_again_with_fewer_games_leaves_no_old_figures(tmp_path):
    synthetic_study(tmp_path / "x", games=("Breakout", "UpNDown"), seeds=1, points=5)
    synthetic_study(tmp_path / "y", seeds=1, points=5)
    files = tmp_path / "page_files" / "figures"
    write_report(tmp_path / "x", tmp_path / "page.html")
    (files / "mine-UpNDown.svg").write_text("<svg/>")
    assert (files / "weather-UpNDown.png").is_file()
    write_report(tmp_path / "y", tmp_path / "page.html")
    assert [path.name for path in files.glob("*UpNDown*")] == ["mine-UpNDown.svg"]


def test_text_from_files_is_escaped(tmp_path):
    hostile = "<script>alert(1)</script>"
    plan = synthetic_study(tmp_path, seeds=2, points=5, labels=(hostile, '"><b onmouseover=x> $x_{$ {{7*7}}'))
    name = plan.names[0]
    config = json.loads((tmp_path / "runs" / name / "config.json").read_text())
    config["versions"][hostile] = hostile
    config["config"]["encoder"] = hostile
    (tmp_path / "runs" / name / "config.json").write_text(json.dumps(config))
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / 'a"><i>.mp4').write_bytes(b"")
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert hostile not in page
    assert page.count("<script") == 1
    for tag in ("<b onmouseover", "<i>"):
        assert tag not in page
    assert "{{7*7}}" in page


def test_a_game_that_asks_for_a_module_is_not_loaded(tmp_path):
    plan = synthetic_study(tmp_path, seeds=1, points=5)
    for name in plan.names:
        config = tmp_path / "runs" / name / "config.json"
        config.write_text(config.read_text().replace('"Breakout"', '"antigravity:Breakout-v0"'))
        for path in (tmp_path / "runs" / name / "evaluations").glob("*.json"):
            change_rows(path, '"Breakout"', '"antigravity:Breakout-v0"')
    assert "names the environment 'antigravity:Breakout-v0': its module" in text_of(write_report(tmp_path))
    assert "antigravity" not in sys.modules


def test_videos_beside_are_linked(tmp_path):
    synthetic_study(tmp_path / "x", seeds=1, points=5)
    (tmp_path / "x" / "videos").mkdir()
    for name in ("dsac m, snow.mp4", "fog.gif", "notes.txt"):
        (tmp_path / "x" / "videos" / name).write_bytes(b"")
    page = write_report(tmp_path / "x", tmp_path / "elsewhere.html").read_text()
    assert '<video controls preload="none" src="x/videos/dsac%20m%2C%20snow.mp4"' in page
    assert 'href="x/videos/fog.gif"' in page
    assert "notes.txt" not in page


def test_videos_that_are_missing_are_made_and_one_that_cannot_be_is_a_sentence(tmp_path):
    synthetic_study(tmp_path, seeds=2, points=5)
    found = films(read_study(tmp_path))
    assert [(f.run.agent, f.run.seed, f.shifts) for f in found] == [
        ("dsac", 0, ("id", "snow", "rain", "fog")),
        ("dsac-m", 0, ("id", "snow", "rain", "fog")),
    ]
    words = shlex.split(found[1].command)
    assert build_parser().parse_args(words[1:]).shifts == ["id", "snow", "rain", "fog"]
    page = text_of(write_report(tmp_path))
    assert "No video has been made yet" in page
    assert f"dsacc watch runs/{found[0].run.name}" in page
    said: list[str] = []

    def camera(run, out, **how):
        if "dsac-m" in run.name:
            raise RunError("it holds no trained agent yet")
        out.write_bytes(b"a video")

    shoot(read_study(tmp_path), said.append, camera)
    assert said[-1] == f"no video of {found[1].run.name}: it holds no trained agent yet"
    videos = read_study(tmp_path).videos
    assert [path.stem for path in videos] == ["Breakout-dsac-s0"]
    shoot(read_study(tmp_path), said.append, camera)
    assert len([line for line in said if "Breakout-dsac-s0." in line]) == 1
    assert "No video has been made yet" not in text_of(write_report(tmp_path))


def test_variants_are_agents_of_their_own(tmp_path):
    synthetic_study(tmp_path, seeds=2, points=5, labels=("noise", "no noise"), agents=("dsac", "dsac-m"))
    words = text_of(write_report(tmp_path))
    assert "DSAC-M, no noise against DSAC, noise:" in words


def test_one_untested_run_makes_a_page_that_says_so(tmp_path):
    plan = synthetic_study(tmp_path, seeds=1, points=5)
    folder = tmp_path / "runs" / plan.names[0]
    for path in (folder / "evaluations").glob("*.json"):
        path.unlink()
    words = text_of(write_report(folder))
    assert "Nothing has been tested yet" in words
    assert "Learning curves" in words


def test_a_clip_figure_is_shown_where_one_can_be_drawn(tmp_path):
    from matplotlib.figure import Figure

    asked = []

    def clip(run):
        asked.append(run)
        if len(asked) == 1:
            raise RunError("no agent here")
        figure = Figure()
        figure.subplots().bar([0, 1], [0.2, 0.8])
        return figure, "Without the clip the best action is lost."

    plan = synthetic_study(tmp_path, seeds=2, points=5)
    page = write_report(tmp_path, clip=clip)
    assert [path.name for path in asked] == [run.name for run in plan.runs if run.agent == "dsac-m"]
    assert "Without the clip the best action is lost." in text_of(page)
    assert (tmp_path / "report_files" / "figures" / "clip.svg").is_file()


def test_commands_repeat_the_runs_exactly(tmp_path):
    synthetic_study(tmp_path, seeds=1, points=5, labels=("", "more"), games=("Breakout",))
    for run in read_study(tmp_path).runs:
        config = Config(**{**run.config, "replay_compression": "lz4", "alpha": 0.2, "shared_trunk": False})
        run.config.update(vars(config))
        command = shlex.split(train_command(run) or "")
        args = vars(build_parser().parse_args(command[1:]))
        assert (args["env"], args["steps"], args["agent"]) == ("Breakout", 100_000, config.agent)
        from dataclasses import MISSING, fields

        from dsacc.config import AGENTS, make_config

        given = {f.name: args[f.name] for f in fields(Config) if args.get(f.name, MISSING) is not MISSING}
        assert make_config(args["preset"], **given, constraint=AGENTS[args["agent"]]) == config


def test_the_command_writes_the_page_and_says_where(tmp_path, capsys):
    synthetic_study(tmp_path / "x", seeds=1, points=5)
    assert main(["report", str(tmp_path / "x"), "--out", str(tmp_path / "page.html")]) == 0
    assert f"wrote {tmp_path / 'page.html'}" in capsys.readouterr().err
    assert (tmp_path / "page_files" / "tables" / "results.tex").is_file()
    with pytest.raises(ConfigError, match=r"must end in \.html"):
        write_report(tmp_path / "x", tmp_path / "page.pdf")


def test_the_papers_grid_fits_into_one_page(tmp_path):
    synthetic_study(tmp_path, games=NINE, agents=THREE, points=500, steps=1_000_000, policy=("greedy",))
    page = write_report(tmp_path)
    assert page.stat().st_size < 15e6
    words = text_of(page)
    assert "81 of 81" in words
    assert "1,000,000 steps, these" not in words


def test_lambda_is_drawn_between_its_bounds(tmp_path):
    synthetic_study(tmp_path, seeds=1, points=10)
    study = read_study(tmp_path)
    drawings = dict(
        diagnostic_figures(study, {a: Style(i) for i, a in enumerate(study.agents)}, {"Breakout": "breakout"})
    )["Breakout"]
    by_name = {d.name: d.values["y"] for d in drawings if d.values}
    for key in ("lambda", "lower", "upper"):
        assert by_name[f"{key}-breakout"] == [-0.02, 1.02]
    assert by_name["q-breakout"] != [-0.02, 1.02]


def test_a_page_alone_leaves_nothing_beside_it_and_links_to_nothing(tmp_path):
    synthetic_study(tmp_path / "study", seeds=2, points=10, checks=2)
    page = tmp_path / "page" / "alone.html"
    page.parent.mkdir()
    assert main(["report", str(tmp_path / "study"), "--alone", "--out", str(page)]) == 0
    assert [p.name for p in page.parent.iterdir()] == ["alone.html"]
    links = set(re.findall(r'(?:href|src)="([^"]*)"', page.read_text()))
    assert {link for link in links if not link.startswith(("#", "data:"))} == set()
    assert "How sure:" in text_of(page)
