"""The tables of the report, the paper's number beside each of ours, and what they say about the paper's claims."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from statistics import correlation as pearson
from statistics import mean, pstdev
from typing import Any

from zgul.evaluation import McNemar, MeanStd, mcnemar_counts
from zgul.languages import GROUPS, TARGETS, find, similarity
from zgul.paper import numbers
from zgul.paper.frame import Entry, Frame, average, averages, choose_tuned, encoder_of, spread
from zgul.paper.numbers import AVERAGE, PaperTable
from zgul.paper.report import document
from zgul.paper.report.document import TABLES, Cell, Head, Item, ReportTable, cell, group_title, listed, table
from zgul.paper.rows import ABLATIONS, BASELINES, COMPARED, MULTI_SOURCE, ROWS, TARGET_TEXT, TRAINED, ZERO_SHOT, ZGUL
from zgul.paper.store import PARTS, Score

HOLDS = "holds"
FIRST = "ZGUL is first"  # the first of the claims in tables.toml
TIED = "ZGUL, EM tied by layer"
Rows = Iterable[tuple[str, Sequence[Entry], dict[str, float]]]  # title, scores and the paper's numbers
Points = dict[float, MeanStd | None]  # examples -> F1
WEIGHTS: dict[str, str] = TABLES["weights"]
RANDOM_START = "random start"  # the variant whose attention networks start at random
STRONG, WEAK = 0.5, 0.2  # from these correlations on, weights follow relatedness, or follow it weakly
MICRO = "Micro-F1"  # the last row of the tables of classes


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
    cells, runs = {}, {}
    for title, entries, paper in rows:
        for group, languages in blocks.items():
            if {*languages} != ({*GROUPS[group].targets} if group else paper.keys() - {""}):
                paper.pop(group, None)
        stds = flat(numbers.DEVIATIONS, title)
        own = {column: average(entries, codes) for column, codes in columns.items()}
        if any(own.values()):
            cells[title] = [replace(cell(own[key], paper.get(key)), paper_std=stds.get(key)) for key in columns]
            runs[title] = [found.runs if found else 0 for found in own.values()]
    for place, counts in enumerate(zip(*runs.values(), strict=True)):
        for title, count in zip(runs, counts, strict=True):
            if 0 < count < max(counts):  # a mean over fewer seeds than beside it
                cells[title][place] = replace(cells[title][place], mark=f" ({count} of {max(counts)} seeds)")
    return table(name, cells, heads, best=True, **more)


def task_table(name: str, frame: Frame, task: str, rows: Rows, **more: Any) -> ReportTable | None:
    """F1 in the groups of a task side by side, as the paper prints them."""
    blocks = {group: frame.languages(group) for group in frame.groups() if GROUPS[group].task == task}
    words = {"task": task.upper(), "seeds": seeds_of(frame, blocks)}
    return f1_table(f"{name}/{task}", blocks, rows, words=words, **more)


def seeds_of(frame: Frame, groups: Iterable[str]) -> str:
    """The seeds of the zero-shot runs, by group if the groups differ."""
    seeds = {name: listed(sorted({run.seed for run in frame.runs_of("zero-shot", name)})) for name in groups}
    if len({*seeds.values()}) == 1:
        return next(iter(seeds.values()))
    return "; ".join(f"{group_title(group)} {own}" for group, own in seeds.items())


def zero_shot_table(frame: Frame, task: str) -> ReportTable | None:
    """The paper's main table of a task. A star marks a ZGUL that is better than the closest baseline."""
    rows = ((row, frame.entries(row), paper_row(row)) for row in ZERO_SHOT)
    made = task_table("zero-shot", frame, task, rows, rules=(MULTI_SOURCE[0], ABLATIONS[0]))
    for claim in (find_claim(frame, group) for group in frame.groups() if GROUPS[group].task == task):
        if made and claim and claim.verdict == HOLDS:
            place = made.heads.index((group_title(claim.group), "Avg"))
            made.rows[ZGUL][place] = replace(made.rows[ZGUL][place], mark="*")
    return made


def em_forms_table(frame: Frame, task: str) -> ReportTable | None:
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
    """EM's gain in each form; of the release's, how much is flattening and how much entropy, where EM was chosen."""
    pairs, rows = TABLES["em-gains"], {}
    for group in frame.groups():
        gains: list[Item] = [row_difference(frame, group, *pair) for pair in pairs.values()]
        released, control, without = (
            {(e.run.hash, e.score.language): e.score for e in frame.entries(row, group)} for row in TABLES["em-release"]
        )
        # where T = 0 was chosen, the row is the model without EM, which is not flattened either
        used = [key for key in released if key in control and key in without and (released[key].em or {}).get("steps")]
        flattening = [control[key].f1 - without[key].f1 for key in used]
        entropy = [released[key].f1 - control[key].f1 for key in used]
        if any(gains[1:]):
            split = [mean(values) if values else None for values in (flattening, entropy)]
            rows[group_title(group)] = [*gains, f"{len(used)} of {len(released)}", *split]
    release = (("Release's EM, where chosen", title) for title in ("targets", "flattening", "entropy"))
    return table("em-gains", rows, ("Group", *pairs, *release))


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
    """Every row that has a score for a language."""
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
    missing: Sequence[str] = ()  # baselines without scores, one of which might be closer

    @property
    def p(self) -> float:
        """The largest p of all seeds."""
        return max((test.p for test in self.tests), default=1.0)

    @property
    def verdict(self) -> str:
        if self.missing:
            return f"open without {listed(self.missing)}"
        more_words = all(test.only_first > test.only_second for test in self.tests)
        if min(self.differences) > 0 and more_words and self.p < numbers.ALPHA:
            return HOLDS
        return "not beyond chance" if self.own > self.other else "does not hold"

    @property
    def words(self) -> str:
        """The verdict. "In every seed" asks little of a single one, so this is said."""
        return self.verdict + (", one seed" if len(self.differences) == 1 else "")


def find_claim(frame: Frame, group: str, statement: str = FIRST) -> Claim | None:
    """ZGUL against another row, over the seeds that both have."""
    by_row = {row: averages(frame.entries(row, group), frame.languages(group)) for row in ZERO_SHOT}
    baselines = {row: mean(by_row[row].values()) for row in BASELINES if by_row[row]}
    row = TABLES["claims"][statement] or max(baselines, key=lambda row: baselines[row], default="")
    missing = [row for row in BASELINES if row not in baselines] if statement == FIRST else []
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
        paper = signed(numbers.printed_average(group, ZGUL) - numbers.printed_average(group, row))
    own, other = map(mean, zip(*pairs, strict=True))
    return Claim(statement, group, row, own, other, [first - second for first, second in pairs], tests, paper, missing)


def find_claims(frame: Frame) -> dict[str, Claim]:
    """Every claim that the results can answer, by title."""
    claims = (find_claim(frame, group, claim) for claim in TABLES["claims"] for group in frame.groups())
    return {f"{claim.statement}, {group_title(claim.group)}": claim for claim in claims if claim}


def verdict_table(frame: Frame) -> ReportTable | None:
    """Every claim with its verdict and the evidence for it."""
    claims, rows = find_claims(frame), {}
    for title, claim in claims.items():
        words = [[test.only_first for test in claim.tests], [test.only_second for test in claim.tests]]
        verdict = Cell(text=claim.words, bold=claim.verdict == HOLDS)
        cells: list[Item] = [verdict, claim.own, f"{claim.row} {claim.other:.1f}", signed(claim.own - claim.other)]
        cells.append(" to ".join(dict.fromkeys(signed(edge(claim.differences)) for edge in (min, max))))
        cells += [round(mean(counts)) if counts else None for counts in words]
        rows[title] = [*cells, "< 0.0001" if claim.p < 0.0001 else f"{claim.p:.2g}", claim.paper]
    rules = [title for title, claim in claims.items() if claim.group == frame.groups()[0]]
    return table("verdicts", rows, rules=rules)


def summary(frame: Frame) -> list[str]:
    """One sentence for each claim that can be judged."""
    sentences, found = [], find_claims(frame).values()
    for statement in dict.fromkeys(claim.statement for claim in found):
        claims = [claim for claim in found if claim.statement == statement and not claim.missing]
        ahead, held = sum(claim.own > claim.other for claim in claims), sum(claim.verdict == HOLDS for claim in claims)
        what = "its average is the highest, its own ablations aside," if statement == FIRST else "it raises the average"
        sentences.append(f"**{statement}**: {what} in {ahead} of {len(claims)} groups. The claim holds in {held}.")
    return sentences


def coverage(frame: Frame) -> str:
    """Which groups and seeds the verdicts rest on."""
    left = listed(group_title(group) for group in GROUPS if group not in frame.groups())
    missing = document.text("coverage-missing", groups=left) if left else ""
    return document.text("coverage", seeds=seeds_of(frame, frame.groups()), missing=missing)


def signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")  # + 0.0: no −0.0


def earlier_tables(frames: Mapping[str, Frame]) -> list[ReportTable | None]:
    """Verdicts, averages and settings by protocol. The last frame is this report's; it is compared with the others."""
    if len(frames) < 2:
        return []
    claims = [find_claims(frame) for frame in frames.values()]
    verdicts: dict[str, list[Item]] = {}
    for title in dict.fromkeys(title for found in reversed(claims) for title in found):
        now, own = claims[-1].get(title), [found.get(title) for found in claims]
        final = now.verdict if now and not now.missing else None
        verdicts[title] = [
            Cell(text=f"{signed(c.own - c.other)} ({c.words})", bold=final not in (None, c.verdict)) if c else "–"
            for c in own
        ]
    groups = [group for group in GROUPS if any(group in frame.groups() for frame in frames.values())]
    columns = {(group_title(group), name): (group, frame) for group in groups for name, frame in frames.items()}
    averages = {row: [average(f.entries(row, g), f.languages(g)) for g, f in columns.values()] for row in ZERO_SHOT}
    protocols = [frame.store.meta.get("protocol", {}) for frame in frames.values()]
    shared = [name for name in protocols[-1] if all(name in protocol for protocol in protocols)]
    settings = {name: [listed(protocol[name]) for protocol in protocols] for name in shared}
    for name in TABLES["extended"]:
        settings.pop(name, None)
    settings["seeds"] = [seeds_of(frame, frame.groups()) for frame in frames.values()]
    settings["groups"] = [listed(map(group_title, frame.groups())) for frame in frames.values()]
    settings["tuning runs"] = [str(len(frame.runs_of("tuning"))) for frame in frames.values()]
    return [
        table("earlier-verdicts", verdicts, ("Claim", *frames)),
        table("earlier-averages", {row: own for row, own in averages.items() if any(own)}, ("Method", *columns)),
        table("earlier-settings", {name: s for name, s in settings.items() if len({*s}) > 1}, ("Setting", *frames)),
    ]


def tuning_table(frame: Frame, task: str) -> ReportTable | None:
    """Dev F1 of each rate that was tried for the methods of a task, the chosen one marked."""
    tuned = [tried for tried in choose_tuned(frame.runs_of("tuning")) if tried.task == task]
    rates = sorted({rate for tried in tuned for rate, _ in tried.dev_f1})
    rows = {}
    for tried in sorted(tuned, key=lambda tried: TRAINED.index(tried.method)):
        for reduction in sorted({reduction for _, reduction in tried.dev_f1}, key=lambda value: value or 0):
            title = tried.method + (f", reduction {reduction:g}" if reduction else "")
            cells = {rate: Cell(tried.dev_f1.get((rate, reduction)), digits=2) for rate in rates}
            if tried.chosen[1] == reduction:
                cells[tried.chosen[0]] = replace(cells[tried.chosen[0]], bold=True, mark=" ←")
            rows[title] = cells.values()
    names = {"sft": "SFT Learning Rate", "adapters": "Learning Rate", "reductions": "Reduction Factor"}
    words = {word: listed(map(_rate, numbers.GRID[name])) for word, name in names.items()} | {"task": task.upper()}
    words["groups"] = " and ".join(dict.fromkeys(group_title(group) for tried in tuned for group in tried.groups))
    return table(f"tuning/{task}", rows, ("Method", *map(_rate, rates)), words)


def tuning_limits(frame: Frame) -> list[str]:
    """What the tuning leaves open: methods with one reduction factor, and rates at the end of the grid."""
    alone, edges = [], []
    for tried in choose_tuned(frame.runs_of("tuning")):
        name, (rate, reduction) = f"{tried.method} ({tried.task.upper()})", tried.chosen
        rates = [other for other, factor in tried.dev_f1 if factor == reduction]
        alone += [name] if reduction and len({factor for _, factor in tried.dev_f1}) == 1 else []
        edges += [f"{name} {_rate(rate)}"] if len(rates) > 1 and rate in (min(rates), max(rates)) else []
    found = {"tuning-reduction": alone, "tuning-edge": edges}
    return [document.text(name, methods=listed(methods)) for name, methods in found.items() if methods]


def variants_table(frame: Frame) -> ReportTable | None:
    """ZGUL and its variants: F1 on the dev sets of the sources, and on the targets with EM and without."""
    groups, rows = frame.groups("variants"), {}
    names = dict.fromkeys(str(run.extra["variant"]) for run in frame.runs_of("variants"))
    for name in ("", *names):
        part, where, cells = "variants" if name else "zero-shot", {"variant": name} if name else {}, []
        for group in groups:
            of_row = [frame.entries(row, group, part, **where) for row in (ZGUL, "ZGUL w/o EM")]
            runs = {entry.run.hash: entry.run for entry in of_row[0]}.values()
            cells.append(spread(max(run.facts["dev_f1"]) for run in runs if run.facts.get("dev_f1")))
            cells += [average(entries, frame.languages(group)) for entries in of_row]
        rows[", ".join(filter(None, (ZGUL, name)))] = cells
    columns = ("sources' dev", "targets", "targets w/o EM")
    heads: list[Head] = ["Method", *((group_title(group), column) for group in groups for column in columns)]
    return table("variants", rows, heads, best=True) if groups else None


def _rate(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"{value:.0e}".replace("e-0", "e-")


def em_choices_table(frame: Frame) -> ReportTable | None:
    """How often EM was chosen, and what it gained on the dev sets that chose it and on the targets."""
    rows: dict[str, list[Item]] = {}
    for row, without in TABLES["em-choices"].items():
        f1 = {(e.score.row, e.run.hash, e.score.language): e.score.f1 for r in (row, without) for e in frame.entries(r)}
        choices = []  # whether EM was chosen, its gain on dev, its gain on the target
        for run in frame.runs_of("zero-shot"):
            for code, em in run.facts.get("em", {}).get(row, {}).items():
                if {(row, run.hash, code), (without, run.hash, code)} <= {*f1} and {"f1", "f1_without_em"} <= {*em}:
                    gain = f1[row, run.hash, code] - f1[without, run.hash, code]
                    choices.append((em["steps"] > 0, em["f1"] - em["f1_without_em"], gain))
        if choices:
            chosen = [choice for choice in choices if choice[0]]
            gains = [[choice[place] for choice in used] for place in (1, 2) for used in (chosen, choices)]
            rows[row] = [len(choices), len(chosen), gains[0].count(0)]
            rows[row] += [mean(values) if values else None for values in gains]
    return table("em-choices", rows, digits=2)


def weights(frame: Frame, kind: str, group: str, variant: str = "", facts: str = "weights") -> list[dict[str, Any]]:
    """Mean weights by target and source, for each seed that has them. ``facts``: after or before training."""
    runs = frame.runs_of("variants" if variant else "zero-shot", group)
    tables = [run.facts.get(facts, {}).get(kind) or {} for run in runs if run.extra.get("variant", "") == variant]
    chosen = ({code: table[code] for code in GROUPS[group].targets if code in table} for table in tables)
    return [table for table in chosen if table]


def correlation(by_target: Mapping[str, Mapping[str, float]]) -> float | None:
    """Pearson's correlation of weight and average similarity over all pairs of target and source."""
    pairs = [(w, similarity(target, source)) for target, row in by_target.items() for source, w in row.items()]
    first, second = zip(*pairs, strict=True) if pairs else ((0.0,), (0.0,))
    if min(pstdev(first), pstdev(second)) < 1e-9:
        return None  # all weights are equal: no correlation is defined
    return pearson(first, second)


def group_correlation(frame: Frame, kind: str, group: str, *which: str) -> MeanStd | None:
    """The correlation in a group over seeds; ``which`` as in `weights`."""
    values = map(correlation, weights(frame, kind, group, *which))
    return spread(value for value in values if value is not None)


def correlation_table(frame: Frame) -> ReportTable | None:
    """The paper's table of correlations, the untrained value beside the trained one, and random starts below."""
    rows = {}
    for variant in ("", RANDOM_START):
        for group in GROUPS:
            cells = []
            for kind in WEIGHTS:
                trained = group_correlation(frame, kind, group, variant)
                cells.append(cell(trained, numbers.CORRELATION.get(group, kind) if trained else None, digits=2))
                cells.append(cell(group_correlation(frame, kind, group, variant, "weights_untrained"), digits=2))
            if not all(item.is_text for item in cells):
                rows[", ".join(filter(None, (group_title(group), variant)))] = cells
    return table("correlation", rows)


def attention_summary(frame: Frame) -> list[str]:
    """Say whether the weights follow relatedness. Runs with random starts decide, if there are any."""
    variants = {run.extra.get("variant") for run in frame.runs_of("variants")}
    variant = RANDOM_START if RANDOM_START in variants else ""
    answers = []
    for kind in ("lang2vec", "fusion"):
        values = {group: group_correlation(frame, kind, group, variant) for group in GROUPS}
        judged = listed(f"{follows(value.mean)} in {group_title(group)}" for group, value in values.items() if value)
        answers += [f"{WEIGHTS[kind]}: {judged}"] if judged else []
    source = "from random starts" if variant else "from starts at typological likeness"
    summary = document.text("attention", source=source, answers=". ".join(answers), strong=STRONG, weak=WEAK)
    return [summary] if answers else []


def follows(correlation: float) -> str:
    """In a word, whether weights with this correlation follow relatedness."""
    seen = round(correlation, 2)
    return "yes" if seen >= STRONG else "weakly" if seen >= WEAK else "in reverse" if seen <= -WEAK else "no"


def classes_table(frame: Frame, task: str, language: str = "") -> ReportTable | None:
    """F1 of each class, averaged over the languages that have it, or of one language."""
    targets = {c for group in GROUPS.values() if group.task == task for c in group.targets if language in ("", c)}
    scored = {row: [e for e in frame.entries(row) if e.score.language in targets] for row in COMPARED}
    by_row = {row: entries for row, entries in scored.items() if entries}
    support: dict[str, Counter[str]] = defaultdict(Counter)  # class -> language -> gold chunks
    for score in (entry.score for entry in next(iter(by_row.values()), [])):
        for name in (name for name, values in score.per_class.items() if values["support"]):
            support[name][score.language] = int(score.per_class[name]["support"])
    printed, rows = numbers.CLASSES[task].values, {}
    order = sorted(support, key=lambda name: ([*printed, name].index(name), name))
    support[MICRO] = sum(support.values(), Counter())
    for name in (*order, MICRO) if order else ():
        counts, paper = support[name], {} if language else printed.get(name, {})
        f1 = [average(entries, counts, partial(_class_f1, name)) for entries in by_row.values()]
        cells = document.bold_best(cell(own, paper.get(row)) for own, row in zip(f1, by_row, strict=True))
        rows[name] = [*cells, cell(counts.total(), paper.get("support"))]
    where = find(language).name if language else "averaged over all languages that have the class"
    words = {"task": task.upper(), "where": where}
    return table(f"classes/{language or task}", rows, ("Class", *by_row, "Support"), words, rules=[MICRO])


def _class_f1(name: str, score: Score) -> float:
    return score.f1 if name == MICRO else score.per_class.get(name, {}).get("f1", 0.0)


def cost_table(frame: Frame) -> ReportTable | None:
    """Trainable parameters and seconds of an epoch."""
    groups, rows = frame.groups(), {}
    for title, method in TABLES["cost"].items():
        trained = frame.runs_of("zero-shot", method=method)
        if runs := [run for run in trained if {"trainable", "seconds_per_epoch"} <= {*run.facts}]:
            millions = mean(run.facts["trainable"] / 1e6 for run in runs)
            rows[title] = [cell(millions, numbers.COST.get(title, "parameters"))]
            for group in groups:
                minutes = numbers.COST.get(title, group)
                times = spread(run.facts["seconds_per_epoch"] for run in runs if run.group == group)
                rows[title].append(cell(times, minutes and 60 * minutes))
    heads = (("Seconds of an epoch", group_title(group)) for group in groups)
    return table("cost", rows, ("Method", "Parameters, M", *heads))


def data_groups_table(frame: Frame) -> ReportTable | None:
    """The training data of each group."""
    rows: dict[str, list[Item]] = {}
    for row in (frame.analyses.get("statistics") or {}).get("groups", ()):
        missing = f" (without {listed(row['missing'])})" if row["missing"] else ""
        sizes = (cell(row[split], row[f"paper_{split}"]) for split in ("train", "dev"))
        tags = " ".join(row["test_tags"])
        rows[group_title(row["group"])] = [row["task"].upper(), listed(row["sources"]) + missing, *sizes, tags]
    return table("data-groups", rows)


def data_targets_table(frame: Frame, language: str = "") -> ReportTable | None:
    """The test files, or one of them."""
    rows: dict[str, list[Item]] = {}
    for row in (frame.analyses.get("statistics") or {}).get("targets", ()):
        if language in ("", row["language"]):
            printed = "" if row["script"] == row["paper_script"] else f" (paper: {row['paper_script']})"
            size, overlap = (cell(row.get(name), row[f"paper_{name}"]) for name in ("sentences", "overlap"))
            title = f"{find(row['language']).name} ({row['language']})"
            rows[title] = [group_title(row["group"]), row["script"] + printed, size, overlap]
    return table(f"data-targets/{language}" if language else "data-targets", rows)


def example_table(item: dict[str, Any], number: int = 0) -> ReportTable | None:
    """A sentence with its gold tags and each method's tags. An example of the paper also has the paper's tags."""
    rows = {"gold": [cell(tag) for tag in item["gold"]]}
    for row in COMPARED:
        pairs = zip(item["tags"][row], item["gold"], strict=True)
        rows[row] = [Cell(text=tag, bold=tag != gold) for tag, gold in pairs]
    words = {"where": f"{find(item['language']).name}, test sentence {item['sentence']}, seed {item['seed']}"}
    for example in (example for example in numbers.EXAMPLES if example.label == item.get("label")):
        words["words"] = example.words
        words["tags"] = "; ".join(f"{system} {tags}" for system, tags in example.tags.items())
    kind = "paper-example" if "words" in words else "example"
    return table(f"{kind}/{item['language']}-{number}", rows, ("", *item["words"]), words)


def runs_table(frame: Frame) -> ReportTable | None:
    """How many runs and hours each part took."""
    rows: dict[str, list[Item]] = {}
    for part in (part for part in PARTS if any(run.part == part for run in frame.runs)):
        runs = [run for run in frame.runs if run.part == part]
        sets = ({r.seed for r in runs}, {str(r.facts.get("device", "–")) for r in runs}, {encoder_of(r) for r in runs})
        rows[part] = [len(runs), sum(run.seconds for run in runs) / 3600, *(listed(sorted(values)) for values in sets)]
    return table("runs", rows, digits=2)
