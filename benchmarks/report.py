"""Write results as JSON and as a table, and the generated parts of docs/performance.md.

A folder of results holds ``cpu.json`` and ``cuda.json`` with the present code, and the same names in ``before`` with an
earlier commit. ``start.json`` and ``int8.json`` have rows that were measured alone (``--name start``), and
``service.json`` comes from ``benchmarks.service``. In the page, the text between ``<!-- bench: NAME -->`` and
``<!-- end -->`` is written again.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks.harness import Result
from zgul.files import atomic_write, read_json, write_json

Stored = dict[str, Any]
BEFORE = "before"
MISSING = "not measured yet"
TITLES = {  # row -> what is measured, and what it is compared with
    "em": ("EM tagging, T = 10", "the release's procedure"),
    "em-bf16": ("EM tagging, T = 10, bf16", "the release's procedure in fp32"),
    "tag-bf16": ("tagging without EM, bf16", "the same in fp32"),
    "tag-onednn": ("tagging without EM, fp32 as `zgul tag` multiplies", "the same in fp32"),
    "tag-int8": ("tagging without EM, int8", "the same in fp32"),
    "tag-int8-ner": ("the same, entities in Hausa", "the same in fp32"),
    "adapters": ("forward pass, mBERT's shape, N = 4", "`adapters` 1.3.0"),
    "encoder": ("forward pass, mBERT's shape, N = 4", "the plain encoder"),
    "count": ("each adapter beyond two", "the plain encoder"),
    "adaptive": ("adaptive EM, 15 test files, T as tuned", "the plain encoder"),
    "adaptive-t10": ("the same, T = 10 everywhere", "the plain encoder"),
    "training": ("training ZGUL, one epoch", "training SFT-M"),
    "mlm": ("masked-LM training of 11 adapters", "a plain loop, one at a time"),
    "start": ("`zgul tag` of one sentence, whole process", "importing torch and transformers"),
    "cold-float32": ("`zgul tag` of one sentence, float32, processor time", "the goal"),
    "cold-int8": ("the same, int8", "the goal"),
    "memory-float32": ("`zgul tag` of one sentence, float32, memory at its peak", "the goal"),
    "memory-int8": ("the same, int8", "the goal"),
    "jobs-idle": ("`zgul tag --jobs 2` of 8 files, from processor time", "`--jobs 1`"),
    "adapt": ("`zgul adapt` on 5,000 lines, whole command", "the goal"),
    "stream": ("memory at the end of a long stream", "its memory when warm"),
}


def store(folder: Path, about: dict[str, str], results: list[Result], name: str) -> Path:
    """Write NAME.json and NAME.md. Returns the path of the first.

    Rows that were measured before, but not this time, stay if they are of the same commit and machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    rows, about = [result.to_json() for result in results], dict(about)
    before: Stored = read_json(path) if path.is_file() else {"machine": {}, "rows": []}
    if all(before["machine"].get(key) == about[key] for key in ("commit", "device", "threads", "torch")):
        new = {row["key"] for row in rows}
        if kept := [row for row in before["rows"] if row["key"] not in new]:
            commands = [*before["machine"]["command"].splitlines(), about["command"]]
            rows, about["command"] = kept + rows, "\n".join(dict.fromkeys(commands))
    stored: Stored = {"machine": about, "rows": rows}
    write_json(path, stored)
    with atomic_write(folder / f"{name}.md") as file:
        file.write(section(stored))
    return path


# --- all rows


def table(stored: Stored) -> str:
    """The rows as a Markdown table."""
    heads = ["measure", "against", "target", "measured", "rounds", "reached"]
    rows = []
    for row in stored["rows"]:
        cells = [row["measure"], row["against"], row["target"]]
        if row["value"] is None:
            rows.append([*cells, row["reason"], "", ""])
            continue
        spread = f"{number(row['low'])} to {number(row['high'])}" if row["low"] != row["high"] else ""
        reached = {True: "yes", False: "**no**", None: ""}[row["met"]]
        rows.append([*cells, f"**{value(row)}**", spread, reached])
    return markdown(heads, rows)


def section(stored: Stored) -> str:
    """The machine, the table, and the notes of each row."""
    commands = [f"    {command}" for command in stored["machine"]["command"].splitlines()]
    lines = [machine_line(stored), "", *commands, "", table(stored)]
    for row in (row for row in stored["rows"] if row["value"] is not None):
        seconds = ", ".join(f"{name} {times['median']:.3g} s" for name, times in row["times"].items())
        notes = [f"Outputs first: {row['compared']}."] if row["compared"] else []
        notes += [f"Medians: {seconds}."] if seconds else []
        lines += [f"**{row['measure']}**, against {row['against']}", "", *(f"- {n}" for n in notes + row["notes"]), ""]
    return "\n".join(lines)


def machine_line(stored: Stored) -> str:
    about = stored["machine"]
    return (
        f"{about['device']}, {about['threads']} threads, {about['system']}; Python {about['python']}, torch "
        f"{about['torch']}, transformers {about['transformers']}, zgul at commit {about['commit']}; {about['date']}."
    )


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    rule = ["---"] * len(heads)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows]) + "\n"


def value(row: Stored) -> str:
    unit = str(row["unit"])
    return number(row["value"]) + (unit if unit in ("×", "%") else f" {unit}")


def number(value: float) -> str:
    """A number with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# --- the page


def write_page(folder: Path, page: Path) -> Path:
    """Write the generated parts of a page again."""
    made = {}
    for name in ("cpu", "cuda", "start", "adapt", "int8"):
        paths = (folder / BEFORE / f"{name}.json", folder / f"{name}.json")
        before, now = (read_json(path) if path.is_file() else None for path in paths)
        made[f"{name} machine"] = machines(before, now)
        made[f"{name} rows"] = before_and_after(before, now)
        made[f"{name} tricks"] = tricks(now)
    load = folder / "service.json"
    made["service"] = service(read_json(load)) if load.is_file() else f"{MISSING.capitalize()}.\n"
    block = re.compile(r"(<!-- bench: ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
    text = block.sub(lambda found: found[1] + made[found[2]] + found[3], page.read_text(encoding="utf-8"))
    with atomic_write(page) as file:
        file.write(text)
    return page


def machines(before: Stored | None, now: Stored | None) -> str:
    lines = [f"- Before: {machine_line(before)}" if before else "- Before: not measured."]
    lines.append(f"- Now: {machine_line(now)}" if now else f"- Now: {MISSING}. All numbers below are of the old code.")
    return "\n".join(lines) + "\n"


def before_and_after(before: Stored | None, now: Stored | None) -> str:
    """One line for each row that was measured before or now."""
    rows = []
    by_key = [{row["key"]: row for row in stored["rows"]} if stored else {} for stored in (before, now)]
    for key, titles in TITLES.items():
        measured = [own.get(key) for own in by_key]
        known = [row for row in measured if row and row["value"] is not None]
        if known:
            target = known[-1]["target"]
            rows.append([*titles, target, *(_cell(row, target) for row in measured)])
    return markdown(["what", "compared with", "target", "before", "now"], rows)


def _cell(row: Stored | None, target: str) -> str:
    if row is None or row["value"] is None:
        return MISSING
    own = f" {row['target']}" if row["target"] != target else ""  # the target was different then
    return f"**{value(row)}**, missed{own}" if row["met"] is False else value(row)


def service(stored: Stored) -> str:
    """What the service reached under load."""
    alone = " and ".join(map(number, stored["words_a_second_of_zgul_tag"]))
    cpu_alone = " and ".join(map(number, stored["words_a_cpu_second_of_zgul_tag"]))
    load = ", ".join(number(one) for one in stored["load_average"])
    missed = "" if stored["met"] else ", missed"
    rows = [
        ["requests", f"{stored['requests']:,}"],
        ["errors", str(len(stored["errors"]))],
        ["seconds to an answer, median (p50)", number(stored["p50_seconds"])],
        ["seconds within which 99 of 100 answers came (p99)", number(stored["p99_seconds"])],
        ["words a second", number(stored["words_a_second"])],
        ["words a second of `zgul tag`, before and after", alone],
        ["share of what `zgul tag` reaches, target ≥ 0.8", f"**{stored['share']:.2f}**{missed}"],
        ["words a second of processor time", number(stored["words_a_cpu_second"])],
        ["words a second of processor time of `zgul tag`, before and after", cpu_alone],
        ["share of what `zgul tag` reaches in processor time", f"{stored['cpu_share']:.2f}"],
        ["load average of the machine over 1, 5 and 15 minutes", load],
    ]
    what = f"{stored['clients']} clients, {stored['seconds']:.0f} seconds"
    return f"{machine_line(stored)}\n\n" + markdown([what, ""], rows)


def tricks(stored: Stored | None) -> str:
    """The gain of each trick, by place."""
    rows = [row for row in (stored or {"rows": []})["rows"] if row["key"].startswith("trick-")]
    places = list(dict.fromkeys(place for row in rows for place in row["details"]["gains"]))
    lines = []
    for row in rows:
        gains = [row["details"]["gains"].get(place) for place in places]
        lines.append([row["measure"].removeprefix("trick: "), *(f"{gain:.2f}×" if gain else "" for gain in gains)])
    return markdown(["trick", *places], lines) if rows else f"{MISSING.capitalize()}.\n"
