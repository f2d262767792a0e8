"""The tables as files: what the page shows as CSV, Markdown and LaTeX, and everything it rests on as CSV."""

from collections.abc import Sequence

from dsacc.analysis.exposure import NOTE
from dsacc.analysis.formats import csv_text, full, render, render_table
from dsacc.analysis.names import display_name
from dsacc.analysis.references import paper_table, reference_scores
from dsacc.analysis.results import Results
from dsacc.analysis.summary import Summary
from dsacc.analysis.tables import EXPOSURE, Cell, Table
from dsacc.views.report.attachments import Attachments
from dsacc.views.report.study import Study
from dsacc.views.report.tables import PUBLISHED
from dsacc.views.report.verdict import Claim


def write_tables(
    attachments: Attachments, study: Study, tables: dict[str, Table], found: Sequence[tuple[Results, Summary]]
) -> None:
    """Write the tables of the page, by the name of the file, and the CSV files. A table without lines is left out."""
    for form, ending in (("csv", "csv"), ("markdown", "md"), ("latex", "tex")):
        if study.rows:
            attachments.write(f"tables/results.{ending}", (render(study.rows, form) or "").encode())  # type: ignore[arg-type]
        for name, table in tables.items():
            if table.lines:
                text = render_table(table, form)  # type: ignore[arg-type]
                attachments.write(f"tables/{name}.{ending}", text.encode())
    if study.rows:
        attachments.write("tables/beside_paper.csv", beside_csv(found).encode())
    if study.checked:
        attachments.write("tables/tests_on_the_way.csv", checks_csv(study).encode())
    attachments.write("tables/curves.csv", raw_curves(study).encode())


def verdict_table(claims: Sequence[tuple[str, Claim]]) -> Table:
    """Every comparison, and whether actions were greedy or sampled."""
    lines, met = [], any(c.exposure for _, c in claims)
    for policy, c in claims:
        e = c.estimate
        figures = [e.value, e.low, e.high] if e and e.low is not None else [None] * 3
        cells = [Cell() if x is None else Cell(f"{x:.3f}", x) for x in figures]
        names = [policy, c.condition, display_name(c.agent), display_name(c.against), *([c.exposure] if met else [])]
        lines.append([*map(Cell, names), *cells, Cell(c.word), Cell(c.sentence)])
    names = ["actions", "condition", "agent", "against", *([EXPOSURE] if met else [])]
    header = [*names, "P", "low", "high", "verdict", "in words"]
    title = "Probability that a run of the agent beats a run of the one it is compared with, with its 95 % interval"
    return Table(title, header, lines, len(names), [NOTE] if met else [])


def run_table(study: Study) -> Table:
    """Every run, and how far it is."""
    lines = []
    for run in study.runs:
        figures = [run.seed, run.step, run.steps, None if run.seconds is None else round(run.seconds)]
        words = [run.state, "yes" if run.rows else "no", run.error or ""]
        names = [run.name, run.game, display_name(run.agent)]
        lines.append([Cell(_text(x)) for x in [*names, *figures, *words]])
    header = ["run", "game", "agent", "seed", "step", "steps", "seconds", "state", "tested", "error"]
    return Table("Every run", header, lines, names=3)


def _text(x: object) -> str:
    return "" if x is None else str(x)


def beside_csv(found: Sequence[tuple[Results, Summary]]) -> str:
    """Our scores, the paper's, random and human ones: one line per game, condition, policy and agent."""
    names = ["game", "shift", "severity", "mode", "policy", "agent", EXPOSURE]
    theirs = ["paper_mean", "paper_std", "paper_suspect", "random", "human", *PUBLISHED]
    lines = [[*names, "mean", "std", "seeds", *theirs]]
    for results, summary in found:
        for (c, agent, game), scores in results.scores.items():
            paper = paper_table().get((game, c.shift, agent)) if c.clean or c.severity == "paper" else None
            scale = summary.scales.get(game)
            human = scale.top if scale and scale.top_name == "human" else None
            ours = [scores.mean, scores.std, len(scores.seeds), *((paper.mean, paper.std) if paper else (None, None))]
            others = reference_scores()[game].published if game in reference_scores() else {}
            ends = [scale.random if scale else None, human, *(others.get(name) for name in PUBLISHED)]
            about = [game, c.shift, _text(c.severity), c.mode or "", results.policy, agent, scores.exposure]
            lines.append([*about, *map(full, ours), paper.suspect if paper else "", *map(full, ends)])
    return csv_text(lines)


def raw_curves(study: Study) -> str:
    """Every number that was logged, one line per run and step."""
    keys = list(dict.fromkeys(key for run in study.runs for row in run.metrics[-1:] for key in row if key != "step"))
    keys = ["return", *(key for key in keys if key != "return")]
    lines = [["run", "game", "agent", "seed", "step", *keys]]
    for run in study.runs:
        for row in run.metrics:
            about = [run.name, run.game, run.agent, _text(run.seed), f"{row['step']:.0f}"]
            lines.append([*about, *(full(row.get(key)) for key in keys)])
    return csv_text(lines)


def checks_csv(study: Study) -> str:
    """Every test of a run at a known step: those during training and the last."""
    conditions = ["shift", "severity", "mode", "policy", "eval_seed", EXPOSURE]
    lines = [["run", "game", "agent", "seed", "step", *conditions, "episodes", "mean"]]
    for run in study.runs:
        for row in sorted(run.checks, key=lambda row: row.step or 0):
            about = [run.name, run.game, run.agent, run.seed, row.step, *(getattr(row, key) for key in conditions)]
            lines.append([*map(_text, about), str(len(row.returns)), full(row.mean)])
    return csv_text(lines)
