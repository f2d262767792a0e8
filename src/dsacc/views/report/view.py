"""What the page says about the tests with one way of acting, greedy or sampled."""

from dataclasses import dataclass

from dsacc.analysis.names import display_name
from dsacc.analysis.references import paper_table
from dsacc.analysis.results import Results
from dsacc.analysis.summary import Summary, interval_note
from dsacc.analysis.tables import Table, severity_table, summary_table
from dsacc.views.report import figures, tables, verdict
from dsacc.views.report.answer import Answer, Claims, answer, overall
from dsacc.views.report.drawing import Drawing
from dsacc.views.report.figures import Styles
from dsacc.views.report.study import Study


@dataclass(frozen=True)
class View:
    """Everything that depends on whether actions were greedy or sampled."""

    policy: str
    key: str  # p0, p1: for the switch of the page
    answer: Answer
    headlines: list[str]
    kept: list[str]  # what hardened agents keep
    claims: dict[str, list[verdict.Claim]]
    limits: list[str]
    by_condition: list[Drawing]  # where the answer's figure has only all conditions together
    summary: Table | None
    severity: Table | None
    gap: Drawing | None
    severities: list[Drawing]
    profiles: list[Drawing]
    unit: str
    baseline: str

    @property
    def intervals(self) -> bool:
        return any(c.estimate and c.estimate.low is not None for made in self.claims.values() for c in made)

    @property
    def shifted(self) -> list[Drawing]:
        return [*([self.gap] if self.gap else []), *self.severities, *self.profiles]

    @property
    def drawings(self) -> list[Drawing]:
        return [*([self.answer.figure] if self.answer.figure else []), *self.by_condition, *self.shifted]

    @property
    def conditions(self) -> list[str]:
        """The columns of the table of comparisons."""
        return list(dict.fromkeys(c.condition for made in self.claims.values() for c in made))

    def claim(self, agent: str, condition: str) -> verdict.Claim | None:
        return next((c for c in self.claims[agent] if c.condition == condition), None)


def pointed_out(baseline: str, made: Claims) -> list[str]:
    """The agents that figures with many show in colour: the baseline, then those whose verdicts say most."""

    def weight(agent: str) -> tuple[int, float]:
        claim = overall(made[agent])
        ranks = {"better": 0, "worse": 0, "hint: better": 1, "hint: worse": 1}
        return ranks.get(claim.word, 2), -abs(claim.estimate.value - 0.5) if claim.estimate else 0.0

    return [baseline, *sorted(made, key=weight)]


def make_view(
    i: int, results: Results, summary: Summary, made: dict[str, list[verdict.Claim]], study: Study, styles: Styles
) -> View:
    steps = [run.steps for run in study.runs if run.rows and run.steps]
    paper = any((g, "id", a) in paper_table() for g in results.games for a in results.agents)
    noted = [note for note in summary.notes if note != interval_note(1)]  # the line on how sure it is says that
    limits = [*verdict.limits(results, summary, steps, paper), *verdict.by_luck(made), *noted]
    key, baseline, met = f"p{i}", summary.opponents(display_name), results.exposures(summary.baseline)
    baseline = f"{baseline} ({met})" if met else baseline
    over, by_severity = summary_table(results, summary), severity_table(results, summary)
    return View(
        policy=results.policy,
        key=key,
        answer=(found := answer(results, summary, made, styles, key)),
        headlines=verdict.headlines(made),
        kept=verdict.kept(results, summary),
        claims=made,
        limits=list(dict.fromkeys(limits)),
        by_condition=_by_condition(key, results, made, found),
        summary=tables.for_page(over) if over.lines else None,
        severity=tables.for_page(by_severity) if by_severity is not None else None,
        gap=figures.gap_figure(f"gap-{key}", "What each shift costs", results, summary, styles),
        severities=figures.severity_figures(f"severity-{key}", summary, styles),
        profiles=figures.profile_figures(f"profile-{key}", results, summary, styles),
        unit=summary.unit,
        baseline=baseline,
    )


def _by_condition(key: str, results: Results, made: Claims, found: Answer) -> list[Drawing]:
    """A figure per condition, for studies whose first figure shows all conditions together."""
    if found.figure is None or found.legend or len(made) < 2:
        return []
    conditions = [verdict.said(results, condition) for condition in results.conditions]
    drawn = []
    for i, name in enumerate(conditions if len(conditions) > 1 else ()):
        rows = [(display_name(c.agent), c) for claims in made.values() for c in claims if c.condition == name]
        note = figures.in_note({agent: results.exposure([results.conditions[i]], agent) for agent in made})
        drawn.append(figures.improvement_figure(f"improvement-{key}-{i}", name, rows, note))
    return [drawing for drawing in drawn if drawing is not None]
