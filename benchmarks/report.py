"""Results on disk (JSON, Markdown, a bar chart) and the page docs/performance.md, which is written from them alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.harness import Machine, Result
from zgul.files import atomic_write
from zgul.tensors import write_json

Stored = dict[str, Any]
TITLES = {"cpu": "CPU", "cuda": "GPU"}
NOTES = "misses.md"


def store(folder: Path, machine: Machine, results: list[Result], name: str) -> Path:
    """Write NAME.json, NAME.md and, where matplotlib is installed, NAME.svg; gives the path of the first.

    Rows that were measured before and not this time stay only if they are of the same commit and machine.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    found, about = [result.to_json() for result in results], dict(machine.about)
    if path.is_file():
        before = read(path)
        same = all(before["machine"].get(key) == about[key] for key in ("commit", "device", "threads", "torch"))
        new = {row["key"] for row in found}
        kept = [row for row in before["rows"] if same and row["key"] not in new]
        if kept:
            commands = [*before["machine"]["command"].splitlines(), about["command"]]
            about["command"] = "\n".join(dict.fromkeys(commands))
        found = kept + found
    stored: Stored = {
        "machine": about,
        "speed": {"flops": machine.flops, "bytes_per_second": machine.bandwidth},
        "rows": found,
    }
    write_json(path, stored)
    with atomic_write(folder / f"{name}.md") as file:
        file.write(section(stored))
    chart(stored, folder / f"{name}.svg")
    return path


def read(path: Path) -> Stored:
    stored: Stored = json.loads(path.read_text(encoding="utf-8"))
    return stored


def table(stored: Stored) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| measure | against | target | measured | rounds | reached | from the floor |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in stored["rows"]:
        if row["value"] is None:
            lines.append(f"| {row['measure']} | {row['against']} | {row['target']} | {row['reason']} | | | |")
            continue
        spread = f"{number(row['low'])} to {number(row['high'])}" if row["low"] != row["high"] else ""
        floor = f"{row['floor']['times_floor']:.1f}×" if row["floor"] else ""
        cells = [row["measure"], row["against"], row["target"], f"**{number(row['value'])}{unit(row)}**", spread]
        cells += [{True: "yes", False: "**no**", None: ""}[row["met"]], floor]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def unit(row: Stored) -> str:
    name = str(row["unit"])
    return name if name in ("×", "%") else " " + name


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def section(stored: Stored) -> str:
    """Machine, table, and what each row has to say."""
    about = stored["machine"]
    speeds = ", ".join(f"{value / 1e12:.3g} Tflop/s in {name}" for name, value in stored["speed"]["flops"].items())
    lines = [
        f"{about['device']}, {about['threads']} threads, {about['system']}; Python {about['python']}, torch "
        f"{about['torch']}, transformers {about['transformers']}, zgul {about['zgul']} at commit {about['commit']}; "
        f"{about['date']}.",
        "",
        *(f"    {command}" for command in about["command"].splitlines()),
        "",
        f"Large products run at {speeds} here, copies at {stored['speed']['bytes_per_second'] / 1e9:.3g} GB/s; "
        "the floor of a row is its operations and bytes at these speeds.",
        "",
        table(stored),
    ]
    for row in stored["rows"]:
        if row["value"] is None:
            continue
        lines += [f"**{row['measure']}**", ""]
        lines += [f"- Outputs first: {row['compared']}."] if row["compared"] else []
        if row["times"]:
            medians = ", ".join(
                f"{name} {seconds(times['median'])} ({seconds(times['min'])} to {seconds(times['max'])})"
                for name, times in row["times"].items()
            )
            lines.append(f"- Median of {len(next(iter(row['times'].values()))['rounds'])}: {medians}.")
        if row["floor"]:
            floor = row["floor"]
            lines.append(
                f"- Floor: {floor['flops'] / 1e9:,.0f} Gflop and {floor['bytes'] / 1e9:.3g} GB, "
                f"{seconds(floor['seconds'])}; we take {floor['times_floor']:.1f} times that."
            )
        lines += [f"- {note}" for note in row["notes"]]
        lines.append("")
    return "\n".join(lines)


def seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def write_page(folder: Path, page: Path) -> Path:
    """docs/performance.md from the stored results of every machine."""
    stored = {name: read(folder / f"{name}.json") for name in TITLES if (folder / f"{name}.json").is_file()}
    if not stored:
        raise SystemExit(f"{folder} has no cpu.json or cuda.json; measure first: make bench")
    lines = [
        "# Performance",
        "",
        "Written by `python -m benchmarks --report` from the results in "
        "[`docs/results/performance`](results/performance); only the last section, on the misses, is by hand.",
        "",
        "Every row compares outputs first and is not timed where they differ. Contestants take turns, in rounds; a "
        "ratio is the median of the rounds' ratios, the spread is the smallest and the largest. `make bench` repeats "
        "the CPU part.",
        "",
    ]
    for name, results in stored.items():
        lines += [f"## {TITLES[name]}", ""]
        if (folder / f"{name}.svg").is_file():
            lines += [f"![Measured against target]({_relative(folder, page)}/{name}.svg)", ""]
        lines += [section(results), ""]
    if (folder / NOTES).is_file():  # what people have to say of the misses
        lines.append((folder / NOTES).read_text(encoding="utf-8"))
    with atomic_write(page) as file:
        file.write("\n".join(lines).rstrip() + "\n")
    return page


def _relative(folder: Path, page: Path) -> str:
    try:
        return folder.resolve().relative_to(page.parent.resolve()).as_posix()
    except ValueError:
        return folder.resolve().as_posix()


def chart(stored: Stored, path: Path) -> bool:
    """Bars of the contestants' medians, a panel for each row; False where matplotlib is not installed."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return False
    timed = [row for row in stored["rows"] if len(row["times"]) > 1]
    if not timed:
        return False
    heights = [len(row["times"]) + 1.2 for row in timed]
    figure, axes = pyplot.subplots(
        len(timed), 1, figsize=(8, 0.32 * sum(heights)), height_ratios=heights, squeeze=False, layout="constrained"
    )
    for row, axis in zip(timed, axes[:, 0], strict=True):
        names = list(row["times"])[::-1]
        speeds = row["details"].get("tokens_per_second")
        speeds = speeds if isinstance(speeds, dict) else None  # each contestant's own: they did not read as much
        scale = {name: 1e6 / (speeds[name] * row["times"][name]["median"]) if speeds else 1.0 for name in names}
        low, medians, high = (
            [row["times"][name][which] * scale[name] for name in names] for which in ("min", "median", "max")
        )
        error = [
            [b - a for a, b in zip(low, medians, strict=True)],
            [b - a for a, b in zip(medians, high, strict=True)],
        ]
        ours = [name.startswith(("zgul", "adaptive", "N =", "bf16")) for name in names]
        colours = ["#2a6f97" if own else "#b8b8b8" for own in ours]
        axis.barh(names, medians, xerr=error, color=colours, error_kw={"lw": 0.8})
        axis.set_title(
            f"{row['key']}: {number(row['value'])}{unit(row)} (target {row['target']})"
            + (", for a million tokens" if speeds else ""),
            fontsize=8,
            loc="left",
        )
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("seconds, median; lines from the fastest to the slowest round", fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True
