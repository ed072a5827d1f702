"""docs/peers.md, written from the stored results. What was not run is said to be missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from peers.speed import FILES
from peers.systems import System, load_systems
from zgul.files import atomic_write, read_json
from zgul.languages import GROUPS, find

Results = dict[tuple[str, str], dict[str, Any]]  # by system and group
MISSING, CUT = "–", "†"
CLOSE = 1.0  # points of F1; less than this is chance, with one seed


def write(stored: Path, page: Path) -> Path:
    """Fill the tables into page.md."""
    systems, results = load_systems(), dict[tuple[str, str], dict[str, Any]]()
    for path in sorted(stored.glob("*-*.json")):
        result = read_json(path)
        results[result["system"], result["group"]] = result
    parts = {
        "SCORES": _scores(systems, results),
        "AHEAD": _ahead(systems, results),
        "COSTS": _costs(systems, results, stored),
        "RUNS": _runs(systems, results),
    }
    frame = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    for name, text in parts.items():
        frame = frame.replace(f"{{{name}}}", text.rstrip("\n"))
    with atomic_write(page) as file:
        file.write(frame)
    return page


def _scores(systems: dict[str, System], results: Results) -> str:
    rows = []
    for group in GROUPS.values():
        own = [results.get((name, group.name), {}) for name in systems]
        cut = [CUT if result.get("limit") else "" for result in own]
        for language in group.targets:
            rows.append([str(find(language)), *_marked([result.get("f1", {}).get(language) for result in own], cut)])
        means = [mean(result["f1"].values()) if result else None for result in own]
        rows.append([f"**{group.name}** (mean)", *_marked(means, cut)])
    return _table(["", *(system.title for system in systems.values())], rows)


def _marked(values: Sequence[float | None], marks: Sequence[str]) -> list[str]:
    """Scores with one digit and their marks. The best is bold."""
    shown = [MISSING if value is None else f"{value:.1f}" for value in values]
    best = max((text for text in shown if text != MISSING), key=float, default="")
    return [(f"**{text}**" if text == best else text) + mark for text, mark in zip(shown, marks, strict=True)]


def _ahead(systems: dict[str, System], results: Results) -> str:
    """Where another system is ahead of zgul, one line for each."""
    lines = []
    for name, system in systems.items():
        found = []
        for group in GROUPS.values():
            ours = results.get(("zgul", group.name), {}).get("f1", {})
            for language, f1 in results.get((name, group.name), {}).get("f1", {}).items():
                if f1 > ours.get(language, f1):
                    close = ", within chance" if f1 - ours[language] < CLOSE else ""
                    found.append(f"{find(language)} (+{f1 - ours[language]:.1f}{close})")
        if name != "zgul":
            lines.append(f"- {system.title}: {', '.join(found) or 'nowhere'}")
    return "\n".join(lines)


def _costs(systems: dict[str, System], results: Results, stored: Path) -> str:
    paths = {code: stored / f"speed.{code}.json" for code in FILES}
    speeds = {code: read_json(path) for code, path in paths.items() if path.is_file()}
    rows = []
    for name, system in systems.items():
        own = [results.get((name, group), {}) for group in GROUPS]
        timed = [speeds.get(code, {}).get("systems", {}).get(name) for code in FILES]
        fast = [f"{one['words_per_second']:,.0f}" if one else MISSING for one in timed]
        load = f"{max(one['load_seconds'] for one in timed if one):.1f} s" if any(timed) else MISSING
        size = [one["bytes"] / 1e6 for one in own if "bytes" in one]
        if name == "sft":
            size = [speed["sft_bytes"] / 1e6 for speed in speeds.values()]
        rows.append([system.title, *fast, load, " / ".join(map(_training, own)), _span(size)])
    shown = [f"words/s, {find(code).name}" for code in FILES]
    text = _table(["", *shown, "loading", f"training: {' / '.join(GROUPS)}", "MB on disk"], rows)
    for speed in speeds.values():
        about = f"{speed['words']:,} words of {find(speed['language']).name}, {speed['rounds']} rounds"
        text += f"\n- {about}, median; {speed['device']}; commit {speed['commit']}, {speed['date']}"
    return text


def _training(result: dict[str, Any]) -> str:
    if "gpu_seconds" in result:
        return f"{result['gpu_seconds'] / 60:.1f} min GPU"
    if "cpu_seconds" not in result:
        return MISSING
    return f"{result['cpu_seconds'] / 60:.1f} min{CUT if result.get('limit') else ''}"


def _span(sizes: Sequence[float]) -> str:
    low, high = (f"{min(sizes):.0f}", f"{max(sizes):.0f}") if sizes else (MISSING, MISSING)
    return low if low == high else f"{low} to {high}"


def _runs(systems: dict[str, System], results: Results) -> str:
    rows = []
    for name, system in systems.items():
        for group in GROUPS.values():
            result = results.get((name, group.name))
            rows.append([system.title, group.name, *(_run(result) if result else ["not run", *[""] * 3])])
    return _table(["", "group", "version", "sentences", "F1 on the sources' dev", "commit, date"], rows)


def _run(result: dict[str, Any]) -> list[str]:
    counted = f"{result['sentences']:,}" if "sentences" in result else ""
    source = f"[stored]({Path(result['from']).relative_to('docs')})" if "from" in result else ""
    about = [result.get("version", source), counted, f"{result['dev_f1']:.1f}"]
    return [*about, ", ".join(result[name] for name in ("commit", "date") if name in result)]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(heads) - 1)
    return "".join("| " + " | ".join(row) + " |\n" for row in [heads, rule, *rows])
