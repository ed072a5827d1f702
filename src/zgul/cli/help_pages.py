"""How help pages are laid out: the options that matter first, the others in groups, and examples.

``commands.toml`` names the main options of each command. The others have their panel from their declaration.
"""

from typing import Any

import typer

OTHERS = "More options"
HELP_NAMES: Any = {"help_option_names": ["-h", "--help"]}


def lay_out(command: Any, name: str, commands: dict[str, Any]) -> None:
    """Arrange the page of a command, and those of the commands inside it."""
    for part, inner in getattr(command, "commands", {}).items():
        lay_out(inner, f"{name} {part}", commands)
    about = commands.get(name, {})
    if examples := about.get("examples"):
        # a backslash breaks the line in Markdown; paragraphs would have a blank line between them
        command.help += "\n\nExamples:\n\n" + "\\\n".join(f"`{example}`" for example in examples)
    main = about.get("main", [])
    order = {flag: number for number, flag in enumerate(main)}
    command.params.sort(key=lambda param: min(order.get(flag, len(main)) for flag in param.opts))
    named = command.get_help_option(typer.Context(command, **HELP_NAMES))
    plain_flags([*command.params, named])
    for param in command.params if main else ():
        if param.param_type_name == "option":
            own = getattr(param, "rich_help_panel", None)
            param.rich_help_panel = None if order.keys() & set(param.opts) else own or OTHERS


def plain_flags(params: list[Any]) -> list[Any]:
    """Let the flags among these parameters show no type: typer writes <bool>."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params
