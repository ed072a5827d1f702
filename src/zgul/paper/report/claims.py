"""Do the paper's claims hold here, and did they under earlier protocols? Tables and sentences made by rule.

A difference *holds* if it has the claimed sign in every seed and McNemar's test on the pooled words of the group
supports it in every seed (p < 0.005, the paper's level). It is *not beyond chance* if it has the sign on average only.
Otherwise it *does not hold*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from zgul.evaluation import McNemar, mcnemar_counts
from zgul.paper import numbers
from zgul.paper.frame import Frame, average, averages
from zgul.paper.report.document import Cell, Column, ReportTable, TableRow, cell, table, text_cells
from zgul.paper.report.texts import group_title, listed, text
from zgul.paper.rows import ZERO_SHOT, ZGUL

ALPHA = 0.005  # the paper's level
FIRST = "ZGUL is first"
COMPONENTS = {"ZGUL w/o EM": "EM helps", "ZGUL w/o L": "Lang2Vec helps", "ZGUL w/o F": "Fusion helps"}


@dataclass(frozen=True)
class Claim:
    """ZGUL against another row of a group: average F1 and McNemar's test on the group's words, seed by seed."""

    statement: str
    group: str
    row: str
    own: float  # mean over seeds of ZGUL's average F1
    other: float
    differences: tuple[float, ...]  # of the averages
    tests: tuple[McNemar, ...]  # ZGUL is the first system

    @property
    def title(self) -> str:
        return f"{self.statement}, {group_title(self.group)}"

    @property
    def difference(self) -> float:
        return mean(self.differences)

    @property
    def p(self) -> float:
        """The largest p of all seeds."""
        return max((test.p for test in self.tests), default=1.0)

    @property
    def holds(self) -> bool:
        more_words = bool(self.tests) and all(test.only_first > test.only_second for test in self.tests)
        return all(difference > 0 for difference in self.differences) and more_words and self.p < ALPHA

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "not beyond chance" if self.difference > 0 else "does not hold"

    @property
    def paper(self) -> str:
        """The paper's difference."""
        if self.statement != FIRST:
            return signed(numbers.average(self.group, ZGUL) - numbers.average(self.group, self.row))
        nearest, gain = numbers.lead(self.group)
        return f"{signed(gain)}{'*' if self.group in numbers.SIGNIFICANT else ''} over {nearest}"


def find_claim(frame: Frame, group: str, statement: str = FIRST, row: str | None = None) -> Claim | None:
    """ZGUL against a row, or against the closest baseline, over the seeds that both have."""
    row = row or frame.closest_baseline(group) or ""
    own, other = (averages(frame.entries(group, title), frame.languages(group)) for title in (ZGUL, row))
    seeds = sorted(own.keys() & other.keys())
    if not seeds:
        return None
    place = {"part": "zero-shot", "group": group, "row": row}
    counts = [count for count in frame.analyses.get("mcnemar") or [] if place.items() <= count.items()]
    first, second = (mean(values[seed] for seed in seeds) for values in (own, other))
    differences = tuple(own[seed] - other[seed] for seed in seeds)
    tests = tuple(mcnemar_counts(count["only_zgul"], count["only_row"]) for count in counts)
    return Claim(statement, group, row, first, second, differences, tests)


def find_claims(frame: Frame) -> list[Claim]:
    """Every claim that the results can answer."""
    claims = [find_claim(frame, group) for group in frame.groups()]
    claims += [find_claim(frame, group, claim, row) for row, claim in COMPONENTS.items() for group in frame.groups()]
    return [claim for claim in claims if claim]


def verdict_table(frame: Frame) -> ReportTable | None:
    """Every claim with its verdict and the evidence for it."""
    rows: list[TableRow] = []
    claims = find_claims(frame)
    for claim, before in zip(claims, [*claims[:1], *claims], strict=False):
        spread = f"{signed(min(claim.differences))} to {signed(max(claim.differences))}"
        words = [[test.only_first for test in claim.tests], [test.only_second for test in claim.tests]]
        cells = (
            Cell(text=claim.verdict, bold=claim.holds),
            Cell(claim.own),
            *text_cells(f"{claim.row} {claim.other:.1f}", signed(claim.difference)),
            *text_cells(spread if len(claim.differences) > 1 else "one seed"),
            *(Cell(mean(counts) if counts else None, digits=0) for counts in words),
            *text_cells(_format_p(claim.p) if claim.tests else "–", claim.paper),
        )
        rows.append(TableRow(claim.title, cells, rule=before.statement != claim.statement))
    heads: list[Column | str] = ["Verdict", "ZGUL", "Against", Column("Difference", rule=True), "By seed"]
    heads += [Column("only ZGUL", "Words right", rule=True), Column("only other", "Words right")]
    return table("verdicts", text("verdicts"), "Claim", (*heads, "p", Column("Paper", rule=True)), rows)


def summary(frame: Frame) -> list[str]:
    """One sentence for each claim."""
    sentences = []
    for statement in (FIRST, *COMPONENTS.values()):
        claims = [claim for claim in find_claims(frame) if claim.statement == statement]
        ahead, held = sum(claim.difference > 0 for claim in claims), sum(claim.holds for claim in claims)
        what = "its average is the highest, its own ablations aside," if statement == FIRST else "it raises the average"
        sentence = f"**{statement}**: {what} in {ahead} of {len(claims)} groups. The claim holds in {held}."
        sentences += [sentence] if claims else []
    return sentences


# --- earlier protocols


def earlier_tables(frames: Mapping[str, Frame]) -> list[ReportTable | None]:
    """Verdicts, averages and settings by protocol. The last frame is this report's; it is compared with the others."""
    if len(frames) < 2:
        return []
    return [_earlier_verdicts(frames), _earlier_averages(frames), _earlier_settings(frames)]


def _earlier_verdicts(frames: Mapping[str, Frame]) -> ReportTable | None:
    by_protocol = [{claim.title: claim for claim in find_claims(frame)} for frame in frames.values()]
    rows = []
    for title, now in by_protocol[-1].items():
        claims = [by_title.get(title) for by_title in by_protocol]
        cells = (
            Cell(text=f"{signed(c.difference)} ({c.verdict})", bold=c.verdict != now.verdict) if c else Cell(text="–")
            for c in claims
        )
        rows.append(TableRow(title, tuple(cells)))
    return table("earlier-verdicts", text("earlier-verdicts"), "Claim", frames, rows)


def _earlier_averages(frames: Mapping[str, Frame]) -> ReportTable | None:
    groups = list(frames.values())[-1].groups()
    heads = [Column(name, group_title(g), name == next(iter(frames))) for g in groups for name in frames]
    rows = []
    for row in ZERO_SHOT:
        values = [average(f.entries(g, row), f.languages(g)) for g in groups for f in frames.values()]
        rows += [TableRow(row, tuple(map(cell, values)))] if any(values) else []
    return table("earlier-averages", text("earlier-averages"), "Method", heads, rows)


def _earlier_settings(frames: Mapping[str, Frame]) -> ReportTable | None:
    """The settings that all protocols name, where they differ."""
    protocols = [frame.store.meta.get("protocol", {}) for frame in frames.values()]
    names = [name for name in protocols[-1] if all(name in protocol for protocol in protocols)]
    shown = {name: [_shown(protocol[name]) for protocol in protocols] for name in names}
    shown["tuning runs"] = [str(len(frame.runs_of("tuning"))) for frame in frames.values()]
    rows = (TableRow(name, text_cells(*values)) for name, values in shown.items() if len({*values}) > 1)
    return table("earlier-settings", text("earlier-settings"), "Setting", frames, rows)


def _shown(value: Any) -> str:
    return listed(value) or "–" if isinstance(value, list | tuple) else str(value)


def signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0: no −0.0


def _format_p(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"
