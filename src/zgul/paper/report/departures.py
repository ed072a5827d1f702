"""Where the runs differ from the paper's, and how they were made: the head of the report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from zgul.paper import numbers
from zgul.paper.frame import Frame
from zgul.paper.report.texts import listed, text

FACTS = {  # notes of the store that stand at the head
    "version": "Version",
    "commit": "Commit",
    "code": "Code",
    "encoder": "Encoder",
    "adapters": "Language adapters",
    "machine": "Machine",
}
LIMITS = ("limit", "dev_limit", "test_limit", "epochs", "em_sentences", "text_lines", "text_steps")
ALWAYS = ("starts", "language adapters", "corpora", "CPG's form", "probes")  # whatever the protocol is


def departures(frame: Frame) -> Iterator[tuple[str, str]]:
    """Every departure from the paper: what, and how."""
    protocol = frame.store.meta.get("protocol", {})
    if encoder := frame.store.meta.get("encoder"):
        yield "encoder", text("departure encoder", encoder=encoder)
    cuts = [text(f"departure {name}", value=_number(protocol[name])) for name in LIMITS if protocol.get(name)]
    if cuts:
        yield "size", "; ".join(cuts) + "."
    if protocol:
        batch = protocol.get("batch_size", 32) * protocol.get("accumulate", 4)
        tuned = "tuned" if frame.runs_of("tuning") else "not tuned"
        yield "rates", text(f"departure rates {tuned}", batch=batch)
    grids = {"EM Steps": protocol.get("em_steps"), "EM LR": protocol.get("em_rates")}
    if any(values and tuple(values) != numbers.GRID[name] for name, values in grids.items()):
        tried, printed = ([_number(values[name] or ()) for name in grids] for values in (grids, numbers.GRID))
        yield "EM's range", text("departure EM's range", steps=tried[0], rates=tried[1], paper=printed[1])
    for name in ALWAYS:
        yield name, text(f"departure {name}")


def head(frame: Frame) -> tuple[tuple[str, str], ...]:
    """How the results were made, in a few lines."""
    meta = frame.store.meta
    commands = commands_of(frame)
    facts = [("Command", f"`{commands[0]}`")] if len(commands) == 1 else []
    facts += [("Commands", f"{len(commands)}, listed at the end")] if len(commands) > 1 else []
    facts += [(title, _note(meta[key])) for key, title in FACTS.items() if meta.get(key)]
    if checksums := meta.get("checksums"):
        together = hashlib.sha256(json.dumps(checksums, sort_keys=True).encode()).hexdigest()[:16]
        facts.append(("Data", f"{len(checksums)} files, together `sha256:{together}`"))
    facts.append(("Seeds", listed(sorted({run.seed for run in frame.runs}))))
    names = "; ".join(name for name, _ in departures(frame))
    facts.append(("Departures from the paper", f"**{names}** (explained in the section of that name)"))
    return tuple((title, value) for title, value in facts if value)


def commands_of(frame: Frame) -> list[str]:
    """The commands that filled the store, in their order."""
    meta = frame.store.meta
    return [command for command in dict.fromkeys(meta.get("commands") or [meta.get("command")]) if command]


def protocol_text(frame: Frame) -> str:
    """The settings of the last command in one line."""
    protocol = frame.store.meta.get("protocol", {})
    return ", ".join(f"{name} {_note(value)}" for name, value in protocol.items() if value not in ((), [], ""))


def _number(value: Any) -> str:
    return listed(f"{item:,g}" for item in value) if isinstance(value, list | tuple) else f"{value:,g}"


def _note(value: Any) -> str:
    """A note in one line. Hashes are set as code."""
    if isinstance(value, list | tuple):
        return listed(map(_note, value))
    note = str(value)
    return f"`{note}`" if len(note) > 30 and " " not in note else note
