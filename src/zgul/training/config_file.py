"""Begin a configuration for a language group of one's own: a YAML file in which every option stands with its help text.

``zgul init`` writes it, ``zgul train --config`` reads it. The texts are those of the options themselves.
"""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from zgul.errors import ZgulError
from zgul.files import create_binary
from zgul.languages import GROUPS, SOURCES, find
from zgul.options import Options
from zgul.training.config import TrainingConfig

WIDTH = 100
OWN_ADAPTERS = "adapters"  # folder in which `zgul adapter train` puts those that are not shipped


def starting_config(
    names: Sequence[str], *, targets: Sequence[str] = (), task: str = "", data: str = "data"
) -> TrainingConfig:
    """A configuration for a group of the paper, or for source languages by code or name.

    ``targets`` are unseen languages that the tagger is for. Sources without a shipped adapter need one of their own.
    """
    if not names:
        raise ZgulError(f"Name a group ({', '.join(GROUPS)}) or source languages: zgul init en de nl --targets fy")
    group = GROUPS.get(names[0].lower()) if len(names) == 1 else None
    if group and task not in ("", group.task):
        raise ZgulError(f"The group {group.name} is for {group.task}. For {task}, name its languages instead.")
    sources = group.sources if group else tuple(dict.fromkeys(find(name).code for name in names))
    unseen = tuple(dict.fromkeys(find(name).code for name in targets)) or (group.targets if group else ())
    if both := [code for code in unseen if code in sources]:
        raise ZgulError(f"{', '.join(both)} cannot be both a source and a target. Targets are not trained on.")
    return TrainingConfig(
        group=group.name if group else "",
        task=group.task if group else task or "pos",
        sources=sources,
        targets=unseen,
        data=data,
        adapters=f"shipped,{OWN_ADAPTERS}" if missing_adapters(sources) else "shipped",
    )


def missing_adapters(sources: Sequence[str]) -> list[str]:
    """Sources whose language adapter does not come with zgul."""
    return [code for code in sources if code not in SOURCES]


def commented_yaml(config: Options, indent: str = "") -> Iterator[str]:
    """The lines of a YAML file with every option, its help text above it, under the headings of the help page."""
    heading, values = "", config.to_dict()
    for name, about, default in config.declared():
        if about.panel and about.panel != heading:
            heading = about.panel
            yield f"\n{indent}# --- {heading}"
        choices = "" if about.metavar or not about.choices else f" One of: {', '.join(about.choices)}."
        text = f"{about.describe(default)}{choices}"
        yield from textwrap.wrap(text, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        value = yaml.safe_dump([values[name]], default_flow_style=True, allow_unicode=True, width=float("inf"))
        yield f"{indent}{name}: {value.strip()[1:-1]}"  # without the brackets of the list around it
    for name in config.option_groups():
        yield f"\n{indent}{name}:"
        yield from commented_yaml(getattr(config, name), f"{indent}  ")


def write_config(config: TrainingConfig, path: Path, *, force: bool = False) -> None:
    """Write a configuration with comments. An existing file is not replaced without ``force``."""
    if path.exists() and not force:
        raise ZgulError(f"{path} exists. Choose another name with --output, or replace it with --force.")
    named = {key: ", ".join(str(find(code)) for code in getattr(config, key)) for key in ("sources", "targets")}
    about = [f"# {name.capitalize()}: {languages or 'none named'}." for name, languages in named.items()]
    first = ["# Options of a training run. Change what you like; a line that you delete has its default."]
    with create_binary(path) as file:
        file.write("\n".join([*first, *about, *commented_yaml(config), ""]).encode("utf-8"))
