"""The list of commands and the examples on their help pages."""

import pytest
from typer.testing import CliRunner

from zgul.cli import COMMANDS, app


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_list_names_every_command() -> None:
    text = shown()
    for name, about in COMMANDS.items():
        assert ("help" in about) == (" " not in name)
        assert name.split()[0] in text and about.get("help", "") in text


@pytest.mark.parametrize(("name", "tasks"), [("tag", "pos|ner|both"), ("evaluate", "pos|ner"), ("export", "pos|ner")])
def test_help_shows_the_tasks_that_a_command_takes(name: str, tasks: str) -> None:
    (line,) = [line for line in shown(name).splitlines() if "--task" in line and "What to tag" in line]
    assert tasks in line.split()


@pytest.mark.parametrize("name", [name for name, about in COMMANDS.items() if "examples" in about])
def test_help_has_examples_of_this_command(name: str) -> None:
    text = shown(*name.split())
    for example in COMMANDS[name]["examples"]:
        assert f"zgul {name}" in example and example in text


def test_options_for_files_stand_below_the_main_ones() -> None:
    text = shown("tag")
    assert text.index("--lang") < text.index("─ Files") < text.index("--probabilities")


PAGES = [name for name, about in COMMANDS.items() if "examples" in about]


def panel(text: str, title: str) -> list[str]:
    """The options of a panel of a help page."""
    lines = text.split(f"─ {title} ─")[1].split("╰")[0].splitlines()[1:]
    return [word for line in lines for word in line.split()[:3] if word.startswith("--")]


@pytest.mark.parametrize("name", PAGES)
def test_help_begins_with_few_options(name: str) -> None:
    text = shown(*name.split())
    first = panel(text, "Options")
    assert first[-1] == "--help" and len(first) <= 6 + ("--no-open" in first)
    assert "<bool>" not in text
    assert CliRunner().invoke(app, [*name.split(), "-h"], env={"COLUMNS": "200"}).stdout == text
    if main := COMMANDS[name].get("main"):
        assert [flag for flag in first if flag in main] == main


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("columns", ["80", "120"])
def test_nothing_is_cut_off(name: str, columns: str) -> None:
    result = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": columns})
    assert "…" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= int(columns)


def test_commands_stand_in_groups() -> None:
    text = shown()
    assert "<bool>" not in text
    order = ["─ Tag text ─", " tag ", "─ Train your own ─", " init ", "─ The paper ─", " report "]
    assert sorted(order, key=text.index) == order


@pytest.mark.parametrize("name", ["tag", "evaluate", "serve", "train", "adapt", "adapter train"])
def test_every_command_takes_the_same_devices(name: str) -> None:
    assert "cpu|cuda|mps|auto" in shown(*name.split())


@pytest.mark.parametrize("name", ["tag", "serve", "evaluate"])
def test_every_command_that_tags_takes_the_same_precisions(name: str) -> None:
    assert "float32|bfloat16|int8" in shown(name)
