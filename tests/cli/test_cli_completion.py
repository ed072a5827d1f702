"""The tab key: what it offers in each shell."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zgul.cli import COMMANDS
from zgul.cli.completion import FILE, load_completions
from zgul.languages import find
from zgul.methods import METHODS

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import build_completions

MADX = [name for name in METHODS if name.startswith("mad")]
ZGUL = f"#!{sys.executable}\nfrom zgul.cli import main\nmain()\n"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, and `zgul` on the path."""
    program = tmp_path / "bin" / "zgul"
    program.parent.mkdir()
    program.write_text(ZGUL)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # the shell is named instead
    return tmp_path


def run(*command: str, **environment: str) -> str:
    given = {**os.environ, **environment}
    return subprocess.run(
        command, capture_output=True, text=True, check=True, env=given, stdin=subprocess.DEVNULL
    ).stdout


def offered(words: str, shell: str = "bash") -> list[str]:
    """What a shell is given for these words; the last one is being typed."""
    environment = {"_ZGUL_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": words}
    environment |= {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    environment["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    return run("zgul", **environment).strip().splitlines()


def test_the_table_is_what_the_commands_have() -> None:
    """If not: python scripts/build_completions.py"""
    made = {"commands": dict(build_completions.commands()), "values": build_completions.values()}
    assert json.loads(FILE.read_text("utf-8")) == json.loads(json.dumps(made))


def test_every_set_that_is_named_exists() -> None:
    table = load_completions()
    takes = [option[2] for about in table["commands"].values() for option in about["options"]]
    takes += [about["takes"] for about in table["commands"].values()]
    assert {one for one in takes if isinstance(one, str)} - {""} <= table["values"].keys()
    for name in table["values"]["languages"]:
        find(name)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("zgul ta", ["tag"]),
        ("zgul data ", ["list", "fetch", "stats"]),
        ("zgul tag --la", ["--lang"]),
        ("zgul tag --lang Faroe", ["Faroese"]),
        ("zgul tag --lang fo --task ", ["pos", "ner", "both"]),
        ("zgul tag -l fo -f ", ["terminal", "conllu", "tsv", "json"]),
        ("zgul train --sources en,fao", []),
        ("zgul train --sources en,Faroe", ["en,Faroese"]),
        ("zgul train --method mad", MADX),
        ("zgul train --device ", ["cpu", "cuda", "mps", "auto"]),
        ("zgul languages Faroe", ["Faroese"]),
        ("zgul data fetch --group afr", ["african"]),
        ("zgul data fetch ud/fo", ["ud/fo_oft"]),
        ("zgul tag --lang fo boo", []),  # so the shell offers files
    ],
)
def test_what_is_offered(shell: Path, words: str, expected: list[str]) -> None:
    assert offered(words) == expected


def test_every_command_is_offered(shell: Path) -> None:
    assert offered("zgul ") == [name for name, about in COMMANDS.items() if "help" in about]


def test_zsh_and_fish_show_what_values_mean(shell: Path) -> None:
    assert '"fo":"Faroese"' in "".join(offered("zgul tag --lang fo", "zsh"))
    assert offered("zgul tag --lang fo", "fish")[0] == "fo\tFaroese"
    assert "is\tIcelandic" in offered("zgul relate fo i", "fish")


def test_bash_completes(shell: Path) -> None:
    script = run("zgul", "--show-completion", "bash")
    ask = 'COMP_WORDS=(zgul tag --lang Faro); COMP_CWORD=3; _zgul_completion zgul; echo "${COMPREPLY[@]}"'
    assert run("bash", "--norc", "-c", f"{script}\n{ask}") == "Faroese\n"


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(shell: Path) -> None:
    run("zgul", "--install-completion", "fish")
    assert run("fish", "-c", "complete -C 'zgul tag --lang Faro'") == "Faroese\tfo\n"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_the_script(shell: Path) -> None:
    script = run("zgul", "--show-completion", "zsh")
    run("zsh", "-f", "-c", f"autoload -Uz compinit; compinit -u\n{script}\nfunctions _zgul_completion")


@pytest.mark.parametrize(
    ("name", "place"), [("bash", ".bashrc"), ("zsh", ".zfunc/_zgul"), ("fish", ".config/fish/completions/zgul.fish")]
)
def test_completion_is_installed(shell: Path, name: str, place: str) -> None:
    assert f"{name} completion installed" in run("zgul", "--install-completion", name)
    assert "zgul" in (shell / place).read_text()
