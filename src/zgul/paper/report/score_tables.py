"""Tables of F1, the paper's number beside each of ours, and what they say about the paper's claims.

``texts.txt`` states the rule by which a claim holds ("rule").
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import mean
from typing import Any

from zgul.evaluation import McNemar, MeanStd, mcnemar_counts
from zgul.languages import GROUPS, TARGETS, find
from zgul.paper import numbers
from zgul.paper.frame import Entry, Frame, average, averages, spread
from zgul.paper.numbers import AVERAGE, PaperTable
from zgul.paper.report.document import TABLES, Cell, Head, Item, ReportTable, cell, group_title, listed, table
from zgul.paper.rows import ABLATIONS, BASELINES, MULTI_SOURCE, ROWS, TARGET_TEXT, ZERO_SHOT, ZGUL

HOLDS = "holds"
FIRST = "ZGUL is first"  # the first of the claims in tables.toml
TIED = "ZGUL, EM tied by layer"
Rows = Iterable[tuple[str, Sequence[Entry], dict[str, float]]]  # title, scores and the paper's numbers
Points = dict[float, MeanStd | None]  # examples -> F1


def flat(tables: Mapping[str, PaperTable], row: str) -> dict[str, float]:
    """The paper's numbers for a row in the tables of several groups: language, or group for its average -> number."""
    rows = {group: table.values.get(row, {}) for group, table in tables.items()}
    return {group if code == AVERAGE else code: number for group in rows for code, number in rows[group].items()}


def paper_row(row: str) -> dict[str, float]:
    """The paper's F1 for a row, wherever it is printed: language, or group for its average -> F1."""
    method, _, variant = row.partition(", EM ")
    if variant == "on target dev":
        return flat(numbers.TARGET_DEV, method)
    if variant == "tied by layer":
        return flat({"": numbers.EM_TIED}, "tied")
    return flat({"": numbers.UNLABELLED} if row in TARGET_TEXT else numbers.ZERO_SHOT, row)


def f1_table(name: str, blocks: Mapping[str, Sequence[str]], rows: Rows, **more: Any) -> ReportTable | None:
    """F1 of each language and the average of each block of languages: a group, or "" for languages of all groups.

    Rows without scores are left out, and so is the paper's average where it is over other languages than ours.
    """
    heads: list[Head] = ["Method"]
    columns: dict[str, Sequence[str]] = {}  # language, or group for its average -> the languages of the column
    for group, languages in blocks.items():
        heads += [(group_title(group), title) for title in (*map(str.capitalize, languages), "Avg")]
        columns |= {code: [code] for code in languages} | {group: languages}
    cells = {}
    for title, entries, paper in rows:
        for group, languages in blocks.items():
            if {*languages} != ({*GROUPS[group].targets} if group else paper.keys() - {""}):
                paper.pop(group, None)
        stds = flat(numbers.DEVIATIONS, title)
        own = {column: average(entries, codes) for column, codes in columns.items()}
        if any(own.values()):
            cells[title] = [replace(cell(own[key], paper.get(key)), paper_std=stds.get(key)) for key in columns]
    return table(name, cells, heads, best=True, **more)


def task_table(name: str, frame: Frame, task: str, rows: Rows, **more: Any) -> ReportTable | None:
    """F1 in the groups of a task side by side, as the paper prints them."""
    blocks = {group: frame.languages(group) for group in frame.groups() if GROUPS[group].task == task}
    seeds = listed(sorted({run.seed for run in frame.runs_of("zero-shot")}))
    return f1_table(f"{name}/{task}", blocks, rows, words={"task": task.upper(), "seeds": seeds}, **more)


def zero_shot_table(frame: Frame, task: str) -> ReportTable | None:
    """The paper's main table of a task. A star marks a ZGUL that is better than the closest baseline."""
    rows = ((row, frame.entries(row), paper_row(row)) for row in ZERO_SHOT)
    made = task_table("zero-shot", frame, task, rows, rules=(MULTI_SOURCE[0], ABLATIONS[0]))
    for claim in (find_claim(frame, group) for group in frame.groups() if GROUPS[group].task == task):
        if made and claim and claim.verdict == HOLDS:
            place = made.heads.index((group_title(claim.group), "Avg"))
            made.rows[ZGUL][place] = replace(made.rows[ZGUL][place], mark="*")
    return made


def em_table(frame: Frame, task: str) -> ReportTable | None:
    """What EM does in each of its forms."""
    rows = ((row, frame.entries(row), paper_row(row)) for row in TABLES["em-rows"])
    return task_table("em", frame, task, rows, rules=["MADX^multi-EMEA"])


def encoders_table(frame: Frame, task: str) -> ReportTable | None:
    """The same methods on every encoder of the store, beside the paper's numbers on XLM-R."""
    places = [(row, name) for row in numbers.XLMR["germanic"].values for name in frame.encoders]
    rows = ((f"{row}, {name}", frame.entries(row, encoder=name), flat(numbers.XLMR, row)) for row, name in places)
    return task_table("encoders", frame, task, rows)


def em_tied_table(frame: Frame) -> ReportTable | None:
    """The paper's table of EM tied by layer against token-wise EM, over all languages."""
    languages = [code for group in frame.groups() for code in frame.languages(group)]
    names = (("tied by layer", TIED, "tied"), ("token-wise", ZGUL, ZGUL))
    rows = ((title, frame.entries(row), flat({"": numbers.EM_TIED}, printed)) for title, row, printed in names)
    return f1_table("em-tied", {"": languages}, rows) if frame.entries(TIED) else None


def em_gains_table(frame: Frame) -> ReportTable | None:
    """How much of EM's gain is entropy and how much is flattening."""
    pairs = TABLES["em-gains"]
    gains = {group: [row_difference(frame, group, *pair) for pair in pairs.values()] for group in frame.groups()}
    rows = {group_title(group): row for group, row in gains.items() if any(row[1:])}
    return table("em-gains", rows, ("Group", *pairs))


def row_difference(frame: Frame, group: str, row: str, other: str) -> MeanStd | None:
    """Difference of the average F1 of two rows, seed by seed, over the languages that both have."""
    entries = [frame.entries(title, group) for title in (row, other)]
    shared = set.intersection(*({entry.score.language for entry in scored} for scored in entries))
    first, second = (averages(scored, shared) for scored in entries)
    return spread(first[seed] - second[seed] for seed in first if seed in second)


def unlabelled_table(frame: Frame) -> ReportTable | None:
    """The paper's table of the methods that read unlabelled text of the target."""
    by_row = {row: frame.entries(row, part="unlabelled", share=1.0) for row in TARGET_TEXT}
    scored = {entry.score.language for entries in by_row.values() for entry in entries}
    languages = [code for code in TARGETS if code in scored]
    sizes = {code: sum(lines.values()) / 1000 for code, lines in (frame.analyses.get("text") or {}).items()}
    left = listed(code for code in TARGETS if code in sizes and code not in scored)
    words = {"note": f". Not run, though there is text: {left}" if left else ""}
    rows = ((row, entries, paper_row(row)) for row, entries in by_row.items())
    made = f1_table("unlabelled", {"": languages}, rows, words=words, rules=["ZGUL++ w/o target adapter"])
    if made and sizes:
        paper = numbers.UNLABELLED.values[numbers.TEXT_SIZE]
        cells = [cell(sizes.get(code), paper.get(code), digits=0) for code in languages]
        made.rows["Text, thousand lines"] = [*cells, Cell()]
        made.rules.add("Text, thousand lines")
    return made


def few_shot_languages(frame: Frame, group: str) -> list[str]:
    """The languages that have every size. A mean over changing languages would bend the curve."""
    done = {(run.extra["language"], run.extra["examples"]) for run in frame.runs_of("few-shot", group)}
    return [code for code in frame.languages(group, "few-shot") if all((code, size) in done for _, size in done)]


def few_shot_scores(frame: Frame, group: str, rows: Iterable[str], languages: Sequence[str]) -> dict[str, Points]:
    """Average F1 by row and number of examples. Zero examples are the zero-shot scores."""
    sizes = sorted({int(run.extra["examples"]) for run in frame.runs_of("few-shot", group)} - {0})
    where: dict[float, dict[str, Any]] = {0: {}} | {size: {"part": "few-shot", "examples": size} for size in sizes}
    return {row: {n: average(frame.entries(row, group, **where[n]), languages) for n in where} for row in rows}


def few_shot_table(frame: Frame, group: str) -> ReportTable | None:
    """Averages of a group by number of examples."""
    languages = few_shot_languages(frame, group)
    scores = few_shot_scores(frame, group, frame.rows(group, "few-shot"), languages)
    heads = ("Examples", *(str(size) for size in next(iter(scores.values()), ())))
    words = {"group": group_title(group), "languages": listed(map(str.capitalize, languages))}
    rows = {row: points.values() for row, points in scores.items()}
    return table(f"few-shot/{group}", rows, heads, words, best=True)


def language_rows_table(frame: Frame, group: str, language: str) -> ReportTable | None:
    """Every row that scored a language."""
    rows: dict[str, list[Item]] = {}
    for row in (row.title for row in ROWS):
        part = "unlabelled" if row in TARGET_TEXT else "zero-shot"
        if entries := frame.entries(row, group, part, language=language, share=1.0):
            f1 = cell(average(entries, [language]), paper_row(row).get(language))
            others = (average(entries, [language], attrgetter(name)) for name in ("precision", "recall", "accuracy"))
            settings = {f"T = {em['steps']}, lr = {em['lr']:g}" for entry in entries if (em := entry.score.em)}
            rows[row] = [part, f1, *others, "; ".join(sorted(settings))]
    return table(f"rows/{language}", rows, words={"language": find(language).name}, rules=TARGET_TEXT[:1])


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
    paper: str  # the paper's difference

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


def find_claim(frame: Frame, group: str, statement: str = FIRST) -> Claim | None:
    """ZGUL against another row, over the seeds that both have."""
    by_row = {row: averages(frame.entries(row, group), frame.languages(group)) for row in ZERO_SHOT}
    baselines = {row: mean(by_row[row].values()) for row in BASELINES if by_row[row]}
    row = TABLES["claims"][statement] or max(baselines, key=lambda row: baselines[row], default="")
    pairs = [(own, by_row[row][seed]) for seed, own in by_row[ZGUL].items() if seed in by_row.get(row, {})]
    if not pairs:
        return None
    place = {"part": "zero-shot", "group": group, "row": row}
    counts = [count for count in frame.analyses.get("mcnemar") or [] if place.items() <= count.items()]
    tests = [mcnemar_counts(count["only_zgul"], count["only_row"]) for count in counts]
    if statement == FIRST:
        nearest, gain = numbers.lead(group)
        paper = f"{signed(gain)}{'*' if group in numbers.SIGNIFICANT else ''} over {nearest}"
    else:
        paper = signed(numbers.average(group, ZGUL) - numbers.average(group, row))
    own, other = map(mean, zip(*pairs, strict=True))
    return Claim(statement, group, row, own, other, [first - second for first, second in pairs], tests, paper)


def find_claims(frame: Frame) -> dict[str, Claim]:
    """Every claim that the results can answer, by title."""
    claims = (find_claim(frame, group, claim) for claim in TABLES["claims"] for group in frame.groups())
    return {f"{claim.statement}, {group_title(claim.group)}": claim for claim in claims if claim}


def verdict_table(frame: Frame) -> ReportTable | None:
    """Every claim with its verdict and the evidence for it."""
    claims, rows = find_claims(frame), {}
    for title, claim in claims.items():
        words = [[test.only_first for test in claim.tests], [test.only_second for test in claim.tests]]
        verdict = Cell(text=claim.verdict, bold=claim.verdict == HOLDS)
        cells: list[Item] = [verdict, claim.own, f"{claim.row} {claim.other:.1f}", signed(claim.own - claim.other)]
        cells.append(f"{signed(min(claim.differences))} to {signed(max(claim.differences))}")
        cells += [round(mean(counts)) if counts else None for counts in words]
        rows[title] = [*cells, "< 0.0001" if claim.p < 0.0001 else f"{claim.p:.2g}", claim.paper]
    rules = [title for title, claim in claims.items() if claim.group == frame.groups()[0]]
    return table("verdicts", rows, rules=rules)


def summary(frame: Frame) -> list[str]:
    """One sentence for each claim."""
    sentences, found = [], find_claims(frame).values()
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
        table("earlier-verdicts", verdicts, ("Claim", *frames)),
        table("earlier-averages", {row: own for row, own in averages.items() if any(own)}, ("Method", *columns)),
        table("earlier-settings", {name: s for name, s in settings.items() if len({*s}) > 1}, ("Setting", *frames)),
    ]
