"""Do the paper's claims hold here, and did they under earlier protocols? ``texts.txt`` states the rule ("rule")."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

from zgul.evaluation import McNemar, mcnemar_counts
from zgul.paper import numbers
from zgul.paper.frame import Frame, average, averages
from zgul.paper.report.document import Cell, Item, ReportTable, group_title, listed, table
from zgul.paper.rows import BASELINES, ZERO_SHOT, ZGUL

HOLDS = "holds"
FIRST = "ZGUL is first"
# Claim -> the row that ZGUL is compared with; "" is the closest baseline.
CLAIMS = {FIRST: "", "EM helps": "ZGUL w/o EM", "Lang2Vec helps": "ZGUL w/o L", "Fusion helps": "ZGUL w/o F"}


@dataclass(frozen=True)
class Claim:
    """ZGUL against another row of a group."""

    statement: str
    group: str
    row: str
    own: float  # ZGUL's average F1, mean over seeds
    other: float
    differences: list[float]  # of the averages, seed by seed
    tests: list[McNemar]  # on the group's words, seed by seed; ZGUL is the first system

    @property
    def title(self) -> str:
        return f"{self.statement}, {group_title(self.group)}"

    @property
    def p(self) -> float:
        """The largest p of all seeds."""
        return max((test.p for test in self.tests), default=1.0)

    @property
    def verdict(self) -> str:
        more_words = all(test.only_first > test.only_second for test in self.tests)
        if min(self.differences) > 0 and more_words and self.p < numbers.ALPHA:
            return HOLDS
        return "not beyond chance" if self.own > self.other else "does not hold"

    @property
    def paper(self) -> str:
        """The paper's difference."""
        if self.statement != FIRST:
            return signed(numbers.average(self.group, ZGUL) - numbers.average(self.group, self.row))
        nearest, gain = numbers.lead(self.group)
        return f"{signed(gain)}{'*' if self.group in numbers.SIGNIFICANT else ''} over {nearest}"


def find_claim(frame: Frame, group: str, statement: str = FIRST) -> Claim | None:
    """ZGUL against another row, over the seeds that both have."""
    by_row = {row: averages(frame.entries(row, group), frame.languages(group)) for row in ZERO_SHOT}
    baselines = {row: mean(by_row[row].values()) for row in BASELINES if by_row[row]}
    row = CLAIMS[statement] or max(baselines, key=lambda row: baselines[row], default="")
    pairs = [(own, by_row[row][seed]) for seed, own in by_row[ZGUL].items() if seed in by_row.get(row, {})]
    if not pairs:
        return None
    place = {"part": "zero-shot", "group": group, "row": row}
    counts = [count for count in frame.analyses.get("mcnemar") or [] if place.items() <= count.items()]
    tests = [mcnemar_counts(count["only_zgul"], count["only_row"]) for count in counts]
    own, other = map(mean, zip(*pairs, strict=True))
    return Claim(statement, group, row, own, other, [first - second for first, second in pairs], tests)


def find_claims(frame: Frame) -> dict[str, Claim]:
    """Every claim that the results can answer, by title."""
    claims = (find_claim(frame, group, statement) for statement in CLAIMS for group in frame.groups())
    return {claim.title: claim for claim in claims if claim}


def verdict_table(frame: Frame) -> ReportTable | None:
    """Every claim with its verdict and the evidence for it."""
    claims, rows = find_claims(frame), {}
    for title, claim in claims.items():
        words = [[test.only_first for test in claim.tests], [test.only_second for test in claim.tests]]
        cells: list[Item] = [Cell(text=claim.verdict, bold=claim.verdict == HOLDS), claim.own]
        cells += [f"{claim.row} {claim.other:.1f}", signed(claim.own - claim.other)]
        cells.append(f"{signed(min(claim.differences))} to {signed(max(claim.differences))}")
        cells += [round(mean(counts)) if counts else None for counts in words]
        rows[title] = [*cells, "< 0.0001" if claim.p < 0.0001 else f"{claim.p:.2g}", claim.paper]
    heads = ("Claim", "Verdict", "ZGUL", "Against", "Difference", "By seed")
    counts = (("Words right", "only ZGUL"), ("Words right", "only other"))
    rules = [title for title, claim in claims.items() if claim.group == frame.groups()[0]]
    return table("verdicts", (*heads, *counts, "p", "Paper"), rows, rules=rules)


def summary(frame: Frame) -> list[str]:
    """One sentence for each claim."""
    sentences = []
    found = find_claims(frame).values()
    for statement in dict.fromkeys(claim.statement for claim in found):
        claims = [claim for claim in found if claim.statement == statement]
        ahead, held = sum(claim.own > claim.other for claim in claims), sum(claim.verdict == HOLDS for claim in claims)
        what = "its average is the highest, its own ablations aside," if statement == FIRST else "it raises the average"
        sentences.append(f"**{statement}**: {what} in {ahead} of {len(claims)} groups. The claim holds in {held}.")
    return sentences


def signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0: no −0.0


def earlier_tables(frames: Mapping[str, Frame]) -> list[ReportTable | None]:
    """Verdicts, averages and settings by protocol. The last frame is this report's; it is compared with the others."""
    if len(frames) < 2:
        return []
    claims = [find_claims(frame) for frame in frames.values()]
    verdicts: dict[str, list[Item]] = {}
    for title, now in claims[-1].items():
        verdicts[title] = [
            Cell(text=f"{signed(c.own - c.other)} ({c.verdict})", bold=c.verdict != now.verdict) if c else "–"
            for c in (found.get(title) for found in claims)
        ]
    groups = [*frames.values()][-1].groups()
    columns = {(group_title(group), name): (group, frame) for group in groups for name, frame in frames.items()}
    averages = {row: [average(f.entries(row, g), f.languages(g)) for g, f in columns.values()] for row in ZERO_SHOT}
    protocols = [frame.store.meta.get("protocol", {}) for frame in frames.values()]
    shared = [name for name in protocols[-1] if all(name in protocol for protocol in protocols)]
    settings = {name: [listed(protocol[name]) for protocol in protocols] for name in shared}
    settings["tuning runs"] = [str(len(frame.runs_of("tuning"))) for frame in frames.values()]
    return [
        table("earlier-verdicts", ("Claim", *frames), verdicts),
        table("earlier-averages", ("Method", *columns), {row: own for row, own in averages.items() if any(own)}),
        table("earlier-settings", ("Setting", *frames), {name: s for name, s in settings.items() if len({*s}) > 1}),
    ]
