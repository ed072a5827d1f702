"""What the documentation site has beyond the files of docs/: a hook of MkDocs (`mkdocs.yml`, ``make docs``).

- Pages that are generated: commands and options from their declarations, notebooks, and the files beside the README.
- Links out of docs/ lead to these pages. Links to source code become plain text, because the site has no code.
"""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

import typer
from mkdocs.structure.files import File, Files

from zgul.cli import COMMANDS
from zgul.ensemble.em import EMConfig
from zgul.options import Options
from zgul.serve.serve_config import ServeConfig
from zgul.training.config import TrainingConfig

ROOT = Path(__file__).resolve().parents[1]
BESIDE = {name: f"project/{name}" for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "LICENSE-DATA.md")}
BESIDE["README.md"] = "index.md"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
COMING = ("adapt.md", "scale.md", "peers.md", "command-line.md")  # until these pages exist, nothing leads to them
FOREIGN = re.compile(r'<script src="https://unpkg.com/iframe-worker/shim"></script>')
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def slug(text: str, separator: str) -> str:
    """The anchor of a heading, as code hosts make it, so that one link works in both places."""
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", separator)


def on_config(config: Any) -> Any:
    """Make anchors as `slug` does, and leave out of the navigation what does not exist yet."""
    config.mdx_configs["toc"]["slugify"] = slug
    config.nav = list(existing(config.nav, Path(config.docs_dir)))
    return config


def existing(entries: list[Any], docs: Path) -> Iterator[Any]:
    """The entries of the navigation without pages that are still to come."""
    for entry in entries:
        title, place = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(place, list):
            yield {title: list(existing(place, docs))}
        elif place not in COMING or (docs / place).is_file():
            yield entry


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {}
    for name, place in BESIDE.items():
        if place.startswith("project/"):
            pages[place] = (ROOT / name).read_text(encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        pages[f"notebooks/{path.stem}.md"] = notebook_page(path)
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Append what is generated. Turn links that leave docs/ into links of the site, or into plain text."""
    if page.file.src_uri in APPENDED:
        markdown += "\n" + APPENDED[page.file.src_uri]()
    here = PurePosixPath(page.file.src_uri).parent
    folder = "" if page.file.src_uri.startswith(("project/", "notebooks/")) else "docs"
    base = normpath(f"{folder}/{here}") if folder else ("notebooks" if str(here) == "notebooks" else ".")

    def change(match: re.Match[str]) -> str:
        picture, text, link = match.groups()
        if re.match(r"[a-z]+:|#", link):
            return match[0]
        path, hash_sign, anchor = link.partition("#")
        whole = normpath(f"{base}/{path}")  # from the root of the repository
        target = BESIDE.get(whole, whole.removeprefix("docs/") if whole.startswith("docs/") else "")
        if not target and whole.startswith("notebooks/"):
            target = whole.replace(".ipynb", ".md")
        if not target or files.get_file_from_path(target) is None:
            return text if (ROOT / whole).exists() or target in COMING else match[0]
        return f"{picture}[{text}]({relpath(target, here)}{hash_sign}{anchor})"

    parts = FENCE.split(markdown)
    return "".join(part if n % 2 else LINK.sub(change, part) for n, part in enumerate(parts))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Take the one script that the theme loads from another host out, and our own in."""
    return FOREIGN.sub(
        f'<script src="{relpath("site/file-worker.js", PurePosixPath(page.url).parent)}"></script>', output
    )


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    return FOREIGN.sub("", output_content)


def commands_page() -> str:
    """All commands with their options, from the command line itself."""
    lines = []
    for name, about in COMMANDS.items():
        if "help" in about:
            command = typer.main.get_command(importlib.import_module(f"zgul.cli.{name}_command").app)
            lines += command_section(name, command)
    return "\n".join(lines) + "\n"


def command_section(name: str, command: Any) -> Iterator[str]:
    """A command, and the commands inside it."""
    yield from (f"## zgul {name}", "", (command.help or COMMANDS[name]["help"]).replace("\f", ""), "")
    for part, inner in getattr(command, "commands", {}).items():
        yield from command_section(f"{name} {part}", inner)
    if examples := COMMANDS.get(name, {}).get("examples"):
        yield from ("```bash", *examples, "```", "")
    panels: dict[str, list[Any]] = {"Arguments": [], "Options": []}  # these come first
    for parameter in command.params:
        if parameter.name != "help" and not getattr(parameter, "hidden", False):
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            panels.setdefault("Arguments" if parameter.param_type_name == "argument" else panel, []).append(parameter)
    for panel, parameters in panels.items():
        if parameters:
            yield from (f"**{panel}**", "", "| name | meaning |", "| --- | --- |", *map(parameter_row, parameters), "")


def parameter_row(parameter: Any) -> str:
    names = (*parameter.opts, *parameter.secondary_opts)
    if parameter.param_type_name == "argument":
        names = (parameter.metavar or names[0].upper(),)
    flags = ", ".join(f"`{name}`" for name in names)
    text, default = parameter.help or "", getattr(parameter, "default", None)
    shown = isinstance(default, str | int | float | Path) and not isinstance(default, bool) and default != ""
    return f"| {flags} | {cell(text + (f' [default: {default}]' if shown and '[default' not in text else ''))} |"


def options_page() -> str:
    """The options of training, of EM and of the service, from their dataclasses."""
    lines = []
    classes = {"Training": TrainingConfig, "Entropy minimisation": EMConfig, "The service": ServeConfig}
    for title, cls in classes.items():
        lines += [f"## {title}", "", f"`{cls.__module__}.{cls.__name__}`", ""]
        lines += ["| option | default | meaning |", "| --- | --- | --- |", *option_rows(cls), ""]
    return "\n".join(lines)


def option_rows(cls: type[Options], prefix: str = "") -> Iterator[str]:
    for name, about, default in cls.declared():
        choices = f" One of: {', '.join(about.choices)}." if about.choices else ""
        shown = f"`{default}`" if default not in ("", ()) else "–"
        yield f"| `{prefix}{name}` | {shown} | {cell(about.help + choices)} |"
    for name, group in cls.option_groups().items():
        yield from option_rows(group, f"{prefix}{name}.")


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("{", "&#123;").split())


def notebook_page(path: Path) -> str:
    """A notebook as a page: its text, its code and what it printed."""
    lines = []
    for one in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(one["source"])
        if one["cell_type"] == "markdown":
            lines += [source, ""]
            continue
        lines += ["```python", source, "```", ""]
        for output in one.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:
                lines += ["<div>", "".join(data["text/html"]), "</div>", ""]
            elif text := "".join(output.get("text", data.get("text/plain", ""))):
                lines += ["```{.text .printed}", text.rstrip(), "```", ""]
    return "\n".join(lines)


APPENDED = {"reference/commands.md": commands_page, "reference/options.md": options_page}
