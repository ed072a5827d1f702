"""Do the paper's claims hold here? A table and a few sentences made by rule from the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean

from zgul.languages import GROUPS
from zgul.paper import numbers
from zgul.paper.frame import Frame
from zgul.paper.report.analysis_tables import RANDOM_START, WEIGHTS, group_correlation
from zgul.paper.report.document import Cell, Column, ReportTable, TableRow, table, text_cells
from zgul.paper.report.score_tables import group_title, listed
from zgul.paper.report.texts import text
from zgul.paper.report.verdicts import RowComparison, against, against_closest, format_p, signed
from zgul.paper.rows import ZGUL

FIRST = "ZGUL is first"
COMPONENTS = {"ZGUL w/o EM": "EM helps", "ZGUL w/o L": "Lang2Vec (L) helps", "ZGUL w/o F": "Fusion (F) helps"}
STRONG, WEAK = 0.5, 0.2  # correlations from which weights follow relatedness, and weakly


@dataclass(frozen=True)
class Claim:
    """A claim of the paper on one group, and what we find."""

    statement: str
    group: str
    test: RowComparison
    paper: str  # the paper's difference

    @property
    def title(self) -> str:
        return f"{self.statement}, {group_title(self.group)}"


def find_claims(frame: Frame) -> list[Claim]:
    """Every claim that the results can answer."""
    claims = []
    for group in frame.groups():
        nearest, gain = numbers.lead(group)
        star = "*" if group in numbers.SIGNIFICANT else ""
        if test := against_closest(frame, group):
            claims.append(Claim(FIRST, group, test, f"{signed(gain)}{star} over {nearest}"))
        for row, statement in COMPONENTS.items():
            if test := against(frame, group, row):
                gain = numbers.average(group, ZGUL) - numbers.average(group, row)
                claims.append(Claim(statement, group, test, signed(gain)))
    order = [FIRST, *COMPONENTS.values()]
    return sorted(claims, key=lambda claim: order.index(claim.statement))


def verdict_table(frame: Frame) -> ReportTable | None:
    """Every claim with its verdict and the evidence for it."""
    rows: list[TableRow] = []
    before = ""
    for claim in find_claims(frame):
        test = claim.test
        spread = f"{signed(min(test.differences))} to {signed(max(test.differences))}"
        words = [[t.only_first for t in test.tests], [t.only_second for t in test.tests]]
        cells = (
            Cell(text=test.verdict, bold=test.holds),
            Cell(test.own),
            *text_cells(f"{test.row} {test.other:.1f}", signed(test.difference)),
            *text_cells(spread if len(test.differences) > 1 else "one seed"),
            *(Cell(mean(counts) if counts else None, digits=0) for counts in words),
            *text_cells(format_p(test.p) if test.tests else "–", claim.paper),
        )
        rows.append(TableRow(claim.title, cells, rule=bool(before) and before != claim.statement))
        before = claim.statement
    heads: list[Column | str] = ["Verdict", "ZGUL", "Against", Column("Difference", rule=True), "By seed"]
    heads += [Column("only ZGUL", "Words right", rule=True), Column("only other", "Words right")]
    return table("verdicts", text("verdicts"), "Claim", (*heads, "p", Column("Paper", rule=True)), rows)


def summary(frame: Frame) -> list[str]:
    """One sentence for each claim."""
    sentences = []
    for statement in (FIRST, *COMPONENTS.values()):
        tests = [claim.test for claim in find_claims(frame) if claim.statement == statement]
        ahead, held = sum(test.difference > 0 for test in tests), sum(test.holds for test in tests)
        what = "its average is the highest, its own ablations aside," if statement == FIRST else "it raises the average"
        told = f"**{statement}**: {what} in {ahead} of {len(tests)} groups. The claim holds in {held}."
        sentences += [told] if tests else []
    return sentences + _attention(frame)


def _attention(frame: Frame) -> list[str]:
    """Do the weights follow relatedness? Random starts decide, if there are runs with them."""
    variant = RANDOM_START if frame.runs_of("variants") else ""
    answers = []
    for kind, network in list(WEIGHTS.items())[:2]:
        found = {group: group_correlation(frame, kind, group, variant=variant) for group in GROUPS}
        judged = {group_title(group): follows(value.mean) for group, value in found.items() if value}
        groups = {answer: listed(g for g in judged if judged[g] == answer) for answer in sorted({*judged.values()})}
        answers += [f"{network}'s " + "; ".join(map("{0[0]} in {0[1]}".format, groups.items()))] if groups else []
    source = "from random starts" if variant else "from starts at typological likeness"
    told = text("attention", source=source, answers=". ".join(answers), strong=STRONG, weak=WEAK)
    return [f"**Attention follows relatedness**: {told}"] if answers else []


def follows(correlation: float) -> str:
    """In a word, whether weights with this correlation follow relatedness."""
    seen = round(correlation, 2)
    return "yes" if seen >= STRONG else "weakly" if seen >= WEAK else "in reverse" if seen <= -WEAK else "no"
