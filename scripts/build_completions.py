"""Write what the tab key offers, `src/zgul/cli/completions.json`, from the commands themselves.

python scripts/build_completions.py
"""

import importlib
import json
from collections.abc import Iterator
from typing import Any

import typer

from zgul.cli import COMMANDS
from zgul.cli.completion import FILE
from zgul.corpora import catalogue
from zgul.corpora.sentence import TASKS
from zgul.encoders.embedded import PACKAGE
from zgul.files import atomic_write
from zgul.languages import GROUPS, find
from zgul.languages.language import load_table
from zgul.methods import METHODS
from zgul.tagging.reading import KINDS
from zgul.tagging.serving import shipped_names

# What options and arguments take whose help page names no fixed words. The others take any text, or a file.
SETS = {
    "--lang": "languages",
    "--sources": "languages",
    "--leave-out": "languages",
    "--extra-adapters": "languages",
    "--group": "groups",
    "--groups": "groups",
    "--input": "inputs",
    "--task": "tasks",
    "--method": "methods",
    "--device": "devices",
    "--model": "taggers",
    "--encoder": "encoders",
    "--adapters": "adapters",
    "--split": "splits",
}
ARGUMENTS = {"languages": "languages", "relate": "languages", "init": "groups_or_languages", "data fetch": "datasets"}


def values() -> dict[str, dict[str, str]]:
    """The named sets of values, with what each means."""
    table, paper = load_table(), {code for group in GROUPS.values() for code in (*group.sources, *group.targets)}
    known = [find(code) for code, short in zip(table.iso3, table.iso1, strict=True) if short]
    languages = {one.code: one.name for one in sorted({*known, *map(find, paper)}, key=lambda one: one.code)}
    languages |= {name: code for code, name in languages.items() if name.isascii() and name.isalpha()}
    groups = {group.name: ", ".join(find(code).name for code in group.sources) for group in GROUPS.values()}
    return {
        "languages": languages,
        "groups": groups,
        "groups_or_languages": groups | languages,
        "tasks": TASKS,
        "inputs": dict.fromkeys(KINDS, ""),
        "methods": {name: method.title for name, method in METHODS.items()},
        "devices": {"cpu": "the processor", "cuda": "an NVIDIA GPU", "auto": "a GPU if there is one"},
        "taggers": dict.fromkeys(shipped_names(), ""),
        "encoders": {"embedded": f"of the package {PACKAGE}"},
        "adapters": {"shipped": "those of the sources", "new": "untrained"},
        "splits": {"train": "", "dev": "", "test": "", "few": "a target's own training data"},
        "datasets": {dataset.name: find(dataset.language).name for dataset in catalogue.select()},
    }


def commands() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every command with its options."""
    for name, about in COMMANDS.items():
        if "help" in about:
            loaded = typer.main.get_command(importlib.import_module(f"zgul.cli.{name}_command").app)
            for inner, command in getattr(loaded, "commands", {"": loaded}).items():
                full = f"{name} {inner}".strip()
                yield full, describe(full, command)


def describe(name: str, command: Any) -> dict[str, Any]:
    options = []
    for param in command.params:
        if param.param_type_name == "option":
            longest = max(param.opts, key=len)
            flags = ["/".join((longest, *param.secondary_opts)), *(flag for flag in param.opts if flag != longest)]
            words = (param.metavar or "").split("|") if "|" in (param.metavar or "") else None
            takes = None if param.is_flag else words or SETS.get(longest, "")
            options.append([flags, param.help.split(". ")[0].split(" [default")[0].rstrip("."), takes])
    help_text = " ".join(command.help.split("\n\n")[0].split())
    return {"help": help_text, "options": options, "takes": ARGUMENTS.get(name, "")}


def main() -> None:
    made = {"commands": dict(commands()), "values": values()}
    with atomic_write(FILE) as file:
        file.write(json.dumps(made, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
