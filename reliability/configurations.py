"""Fuzz target: configurations in YAML, option groups from plain values, and options on the command line.

What is accepted is saved, read again, and is still the same.
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from random import Random
from typing import Any

import typer
import yaml

from reliability import strange
from reliability.cases import Case, check
from zgul.cli import adapter_command, experiment_command, tag_command, train_command
from zgul.ensemble.em import EMConfig
from zgul.files import read_json
from zgul.methods import MethodOptions
from zgul.options import Options, read_yaml
from zgul.paper.plan import Inputs, Protocol
from zgul.tagging.tag_files import FileSettings
from zgul.training.adapter_training import AdapterConfig
from zgul.training.config import TrainingConfig

GROUPS: tuple[type[Options], ...] = (TrainingConfig, TrainingConfig, AdapterConfig, Protocol, Inputs, FileSettings)
GROUPS += (EMConfig, MethodOptions)
NASTY = (  # YAML that is more than plain values
    "!!python/object/apply:os.system ['touch PWNED']",
    "!!python/object/new:subprocess.Popen [[touch, PWNED]]",
    "!!python/name:os.system",
    "!!int abc",
    "!!timestamp x",
    "2001-99-99",
    "2001-01-01",
    "!!binary x",
    "!!set {a, b}",
    "!!omap [a: 1]",
    "&a [*a]",
    "<<: {lr: 1}",
    "0o777",
    "0x" + "f" * 400,
    "1" * 5000,
    "1_0",
    "12:30:45",
    ".inf",
    ".nan",
    "? a",
    "- - - -",
    "|\n  text",
    ">-\n  text",
    "'",
    '"\\x',
    "%YAML 9.9",
    "--- a\n--- b",
    "\t- a",
    "\ud83d",
)
DEEP = ("[" * 100, "[" * 3000, "{a: " * 500, "- " * 500, "? " * 300)  # these take longer
WITHOUT_WORK = {"tag": ("--lang", "no such"), "adapter": ("--text", "no-text"), "experiment": ("--dry-run",)}
COMMANDS = 0.02  # share of the cases that are whole command lines


class Configurations:
    def __init__(self, folder: Path) -> None:
        modules = {
            "train": train_command,
            "tag": tag_command,
            "adapter": adapter_command,
            "experiment": experiment_command,
        }
        self.commands = {name: typer.main.get_command(module.app) for name, module in modules.items()}
        self.defaults = {cls: cls().to_dict() for cls in GROUPS}

    def run(self, case: Case) -> None:
        random = case.random
        if random.random() < COMMANDS:
            self.call(case)
            return
        cls = random.choice(GROUPS)
        path = case.folder / "made.yaml"
        if random.random() < 0.3:
            options = cls.from_dict(self.values(random, cls))
        else:
            path.write_bytes(self.yaml(random, cls))
            values = read_json(path) if random.random() < 0.1 else read_yaml(path)
            options = cls.from_dict(values)
        options.save(path)
        check(cls.from_dict(read_yaml(path)) == options, "what is saved is read back the same")

    def values(self, random: Random, cls: type[Options]) -> dict[str, Any]:
        """Some options with their defaults or odd values."""
        defaults = self.defaults[cls]
        chosen = {
            name: defaults[name] for name in random.sample(list(defaults), random.randint(0, min(6, len(defaults))))
        }
        odd = strange.odd_json(random, chosen) if random.random() < 0.8 else chosen
        return odd if isinstance(odd, dict) and all(isinstance(name, str) for name in odd) else {"lr": odd}

    def yaml(self, random: Random, cls: type[Options]) -> bytes:
        if random.random() < 0.4:
            values = self.values(random, cls)
            with contextlib.suppress(yaml.YAMLError, RecursionError):
                made = yaml.safe_dump(values, allow_unicode=True).encode("utf-8", "surrogatepass")
                return strange.damage(random, made) if random.random() < 0.5 else made
        names = random.choices([*self.defaults[cls], "x", "seed"], k=random.randint(1, 4))
        lines = []
        for name in names:
            value = (
                random.choice(NASTY if random.random() < 0.99 else DEEP)
                if random.random() < 0.5
                else strange.text(random, 6)
            )
            lines.append(f"{name}: {value}\n")
        return "".join(lines).encode("utf-8", "surrogatepass")

    def call(self, case: Case) -> None:
        """A command line with odd values. None of them has data, so that no command comes to its work."""
        random = case.random
        name = random.choice(list(self.commands))
        command: Any = self.commands[name]
        inner = getattr(command, "commands", {})
        part = random.choice(list(inner)) if inner else ""
        flags = [flag for one in (inner[part] if part else command).params for flag in one.opts if flag.startswith("-")]
        arguments = [part] if part else []
        for flag in random.sample(flags, random.randint(0, min(5, len(flags)))):
            arguments += [flag, _as_text(random)]
        if name == "train":
            setting = random.choice((*NASTY, "lr=1", "options.combine=max", "options=1", "a.b.c=1"))
            arguments += ["--set", f"{random.choice(('lr', 'options.x', 'sources'))}={setting}", "--data", "no-data"]
        arguments += WITHOUT_WORK.get(name, ())
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(SystemExit))  # --help, and usage errors, which typer prints itself
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            stack.enter_context(contextlib.chdir(case.folder))
            command.main(arguments, prog_name="zgul", standalone_mode=True)


def _as_text(random: Random) -> str:
    value = strange.odd_value(random)
    return str(value)[:200].replace("\0", "") if random.random() < 0.8 else random.choice(NASTY)[:200]
