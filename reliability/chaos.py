"""Chaos: kill -9 at moments that are drawn, go on, and compare the final files with those of an undisturbed run.

Each kind of work is a command of zgul that runs in a process of its own. Half of the kills come at a moment drawn from
the time that the work takes, half right after a file appeared or changed: there, between two files, is where halves are
left. After up to three kills the work is let come to its end. Where a command has no ``--resume``, it is simply given
again. A kill that comes when the work is done already does not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch

import small_experiment
import standin
import tiny_group
from zgul import encoders
from zgul.adaptation import rounds
from zgul.cli import main as zgul_main
from zgul.corpora import Sentence, columns
from zgul.encoders.embedded import converted_folder
from zgul.paper.experiments import Experiment, run_paper
from zgul.paper.store import DONE, Store
from zgul.progress import Report, Status, silent
from zgul.tensors import load_tensors

AT_MOST = 3  # kills before the work is let come to its end
TOO_LONG = 300.0  # seconds after which work that nobody kills counts as hanging
POLL = 0.0005
PLANNED = ("zero-shot/sft-en", "zero-shot/zgul")
OVER_ALREADY = "to the end already"  # what `zgul train --resume` says of a run that was killed after its last act

Files = dict[str, str]  # name -> SHA-256 of what must be equal


@dataclass
class Work:
    """Something that is killed and goes on."""

    prepare: Callable[[Path], None]  # makes the inputs in a folder
    run: Callable[[Path, Path], None]  # does it: inputs, output. The same call goes on with what was begun
    files: Callable[[Path], Files]  # what the output holds
    processes: int = 1


@dataclass
class Torment:
    """What came of killing one kind of work."""

    work: str
    seed: int
    kills: int = 0
    rounds: int = 0  # outputs that were brought to their end
    at_files: int = 0  # kills right after a file appeared or changed
    seconds: float = 0.0
    undisturbed: float = 0.0  # seconds of a run that nobody kills
    files: int = 0  # compared in each round
    different: list[str] = field(default_factory=list)


def torment(name: str, kills: int, *, seed: int = 0, seconds: float = 0, report: Report = silent) -> Torment:
    """Kill one kind of work so many times, or as often as fits into so many seconds."""
    work, random, started = WORKS[name], Random(f"{name}:{seed}"), time.monotonic()
    result = Torment(name, seed)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="zgul-chaos-") as place, _environment(Path(place)):
        inputs, whole = Path(place) / "inputs", Path(place) / "whole"
        inputs.mkdir()
        whole.mkdir()
        work.prepare(inputs)
        begun = time.monotonic()
        changes = _finish([_start(work, inputs, whole)], whole)
        result.undisturbed = time.monotonic() - begun
        expected = work.files(whole)
        result.files = len(expected)
        while result.kills < kills and not (seconds and time.monotonic() - started > seconds):
            output = Path(place) / f"round-{result.rounds}"
            output.mkdir()
            for _ in range(min(AT_MOST, kills - result.kills)):
                at_file = random.random() < 0.5
                moment = random.randint(1, changes) if at_file else random.uniform(0, 1.1 * result.undisturbed)
                if not _kill(work, inputs, output, at_file, moment, random):
                    break  # it was done before
                result.kills += 1
                result.at_files += at_file
                report(Status(f"chaos {name}", result.kills, kills))
            _finish([_start(work, inputs, output)], output)
            found = work.files(output)
            wrong = sorted(file for file in found.keys() | expected.keys() if found.get(file) != expected.get(file))
            result.different += [f"round {result.rounds}: {file}" for file in wrong]
            result.rounds += 1
    result.seconds = time.monotonic() - started
    return result


# --- processes


@contextlib.contextmanager
def _environment(place: Path) -> Iterator[None]:
    before = dict(os.environ)
    os.environ |= {"ZGUL_TAGGERS": str(place / "inputs"), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _start(work: Work, inputs: Path, output: Path) -> int:
    """Begin the work in a fork of this process, which has imported everything: kills hit work, not imports."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        log = os.open(output.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout = sys.stderr = os.fdopen(log, "w")
        work.run(inputs, output)
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _finish(processes: list[int], output: Path) -> int:
    """Wait until the work is done. Returns how often files appeared or changed."""
    changes, seen, end = 0, _listing(output), time.monotonic() + TOO_LONG
    waiting = set(processes)
    while waiting:
        for process in list(waiting):
            ended, status = os.waitpid(process, os.WNOHANG)
            if not ended:
                continue
            waiting.discard(process)
            log = output.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
            if os.waitstatus_to_exitcode(status) != 0 and OVER_ALREADY not in log:
                raise RuntimeError(f"{output.name} ended with an error:\n{log}")
        now = _listing(output)
        changes, seen = changes + (now != seen), now
        if time.monotonic() > end:
            for process in waiting:
                os.kill(process, signal.SIGKILL)
            raise RuntimeError(f"{output.name} has not ended after {TOO_LONG:g} seconds")
        time.sleep(POLL)
    return max(1, changes)


def _kill(work: Work, inputs: Path, output: Path, at_file: bool, moment: float, random: Random) -> bool:
    """Start the work and kill it at a moment: after so many seconds, or so many changes of files. False if too late."""
    processes = [_start(work, inputs, output) for _ in range(work.processes)]
    victims = random.sample(processes, random.randint(1, len(processes)))
    begun, changes, seen = time.monotonic(), 0, _listing(output)
    while changes < moment if at_file else time.monotonic() - begun < moment:
        now = _listing(output)
        changes, seen = changes + (now != seen), now
        if all(_has_ended(victim) for victim in victims):
            break
        time.sleep(POLL)
    killed = False
    for victim in victims:
        if not _has_ended(victim):
            os.kill(victim, signal.SIGKILL)
            killed = True
    for victim in victims:
        os.waitpid(victim, 0)
    _finish([process for process in processes if process not in victims], output)
    return killed


def _has_ended(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _listing(folder: Path) -> list[tuple[str, int, int]]:
    found = []
    places = os.walk(folder)  # unlike rglob, it takes it that a folder vanishes meanwhile
    for path in sorted(Path(place, name) for place, folders, files in places for name in (*folders, *files)):
        with contextlib.suppress(OSError):
            about = path.stat()
            found.append((path.name, about.st_size, about.st_mtime_ns))
    return found


# --- what is compared


def _digests(folder: Path, skip: tuple[str, ...] = (".lock",)) -> Files:
    """Every file of a folder. Also a temporary file that is left over would be a difference."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in skip)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _without_temporary(files: Files) -> Files:
    """Without what `atomic_write` of a killed process left, which the next write of the same file removes."""
    return {name: digest for name, digest in files.items() if not name.endswith(".tmp")}


def _json_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _tagger_files(output: Path) -> Files:
    """All files; of config.json everything but how long training took."""
    files = _without_temporary(_digests(output))
    if (output / "config.json").is_file():
        config = json.loads((output / "config.json").read_text(encoding="utf-8"))
        del config["about"]["seconds"]
        files["config.json"] = _json_digest(config)
    return files


def _store_files(output: Path) -> Files:
    """Scores, tags and status of every run, without times; and the trained weights."""
    store = Store(output)
    files = {}
    for run in store.runs(status=DONE):
        scores = [vars(score) | {"seconds": 0} for score in store.scores() if score.run == run.hash]
        files[f"scores of {run.name}"] = _json_digest(sorted(map(str, scores)))
    for path in sorted((output / "runs").glob("*/*.safetensors")):
        tensors = load_tensors(path)
        digest = hashlib.sha256(b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors))).hexdigest()
        files[path.relative_to(output).as_posix()] = digest
    return files


# --- kinds of work


def _zgul(*arguments: object) -> None:
    sys.argv = ["zgul", *map(str, arguments)]
    zgul_main()


def _prepare_tagging(inputs: Path) -> None:
    standin.stand_in_taggers(inputs, ("germanic-pos",))
    (inputs / "book.txt").write_text(standin.text(1000), encoding="utf-8")


def _tag(inputs: Path, output: Path) -> None:
    form = ("--lang", "fo", "--em-steps", 3, "-f", "json", "--resume")
    _zgul("tag", *form, inputs / "book.txt", "--output", output / "book.json")


def _train(inputs: Path, output: Path) -> None:
    options = "--group germanic --adapters new --epochs 3 --batch-size 8 --accumulate 1 --eval-every 8 --em-sentences 5"
    places = ("--device", "cpu", "--data", inputs / "data", "--encoder", inputs / "encoder")
    _zgul("train", *options.split(), *places, "--output", output, "--resume")


def _prepare_adapter(inputs: Path) -> None:
    tiny_group.write_group(inputs)
    (inputs / "text.txt").write_text("\n".join(tiny_group.MADE.text("target", 2000, 3)), encoding="utf-8")


def _train_adapter(inputs: Path, output: Path) -> None:
    options = "--lang fo --steps 60 --block 32 --adapterhub --overwrite --device cpu"
    _zgul(
        "adapter",
        "train",
        *options.split(),
        "--text",
        inputs / "text.txt",
        "--encoder",
        inputs / "encoder",
        "-o",
        output,
    )


def _prepare_adapting(inputs: Path) -> None:
    standin.stand_in_taggers(inputs, ("germanic-pos",))
    (inputs / "book.txt").write_text(standin.text(80), encoding="utf-8")
    columns.write(inputs / "few.tsv", [Sentence(one.words, one.tags) for one in standin.words().sentences("s0", 20)])


def _adapt(inputs: Path, output: Path) -> None:
    rounds.CHECKPOINT_EVERY = 0.05  # the work takes seconds
    files = ("--text", inputs / "book.txt", "--labelled", inputs / "few.tsv", "--output", output / "adapted")
    _zgul("adapt", "--lang", "fo", *files, "--epochs", 1, "--few-epochs", 4, "--few-lr", 0.005, "--resume")


def _adapted_files(output: Path) -> Files:
    """All files; of delta.json everything but how long it took."""
    files = _without_temporary(_digests(output))
    note = json.loads((output / "adapted" / "delta.json").read_text(encoding="utf-8"))
    del note["about"]["seconds"]
    return files | {"adapted/delta.json": _json_digest(note)}


def _experiment(inputs: Path, output: Path) -> None:
    """Some runs are finished before the others begin: a kill in the second half must not touch them."""
    settings = small_experiment.inputs_in(inputs), small_experiment.SMALL, output
    for only in (PLANNED[:1], PLANNED):
        outcome = run_paper(Experiment(*settings, list(only)), workers=0)
        if outcome.failed:
            raise SystemExit(str(outcome.failed))


def _convert(inputs: Path, output: Path) -> None:
    os.environ["ZGUL_CACHE"] = str(output)
    encoders.load("embedded")


def _cache_files(output: Path) -> Files:
    os.environ["ZGUL_CACHE"] = str(output)
    files = _digests(output)
    if not converted_folder().is_dir():
        files["missing"] = ""
    return files


def _cache(processes: int) -> Work:
    return Work(lambda inputs: None, _convert, _cache_files, processes)


WORKS = {
    "tagging": Work(_prepare_tagging, _tag, _digests),
    "training": Work(lambda inputs: void(tiny_group.write_group(inputs)), _train, _tagger_files),
    "adapter": Work(_prepare_adapter, _train_adapter, lambda output: _without_temporary(_digests(output))),
    "adapting": Work(_prepare_adapting, _adapt, _adapted_files),
    "experiment": Work(lambda inputs: void(small_experiment.write_experiment(inputs)), _experiment, _store_files),
    "cache-1": _cache(1),
    "cache-2": _cache(2),
    "cache-4": _cache(4),
}


def void(value: object) -> None:
    """Drop a result."""
