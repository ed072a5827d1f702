"""The commands in the documentation run as they stand there, on a small group of made-up languages.

Those that need a network, minutes or a run that was stopped are named in LEFT_OUT, each with the reason.
"""

import lzma
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from test_documentation import PAGES, blocks, calls
from tiny_group import ACTORS, MADE, write_group
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import save_adapters
from zgul.cli import app

LEFT_OUT = {
    r"data fetch": "needs a network; tests/corpora/test_catalogue_fetching.py has a server",
    r"experiment|report|compare": "takes minutes; tests/paper and tests/cli/test_cli_experiment.py run them",
    r"export": "writes 66 MB; tests/tagging/test_onnx_export.py exports a small tagger",
    r"train .*--resume": "needs a run that was stopped; tests/cli/test_cli_train.py stops one",
    r"train .*(@ukp|likeness)": "needs the hub, or a method of one's own; tests/test_contributing.py adds it",
    r"serve|init|adapt |doctor|--\w+-completion": "runs until it is stopped, or has tests of its own",
    r"tag .*--model my-": "needs what `zgul adapt` makes; docs/tutorials/your-text.md does both",
    r"tag .*--engine ray": "needs an object store or a cluster; tests/cluster has both",
    r"train .*--config frisian": "needs what `zgul init` makes; tests/cli/test_cli_init.py trains from one",
    r".* jhu-clsp/": "needs the hub; tests/encoders/test_modern.py trains on a small encoder of that kind",
}
ALONE = (
    "languages fo",
    "relate fo",
    "data list",
    "methods",
    "--version",
    "train --help",
    "serve --help",
)  # in the text
TEXTS = ("book.txt", "letter.txt", "corpus.txt", "texts/a.txt", "texts/b.txt")
SMALL = {
    "train": {"--epochs": "1", "--limit": "8", "--em-sentences": "2", "--batch-size": "8", "--device": "cpu"},
    "adapter": {"--steps": "2", "--blocks": "2", "--block": "16", "--device": "cpu"},
}


def commands(page: Path) -> list[str]:
    """The commands of a page that can run here, in their order."""
    lines = [line for code in blocks(page, "", "bash", "sh") for line in code.splitlines()]
    shown = {part.strip() for line in lines for part in re.split(r"\s\|\s|&&|\s#\s", line)}
    own = [call for call in calls(page) if call in shown or call[5:].startswith(ALONE)]
    return [call for call in own if not any(re.match(f"zgul ({pattern})", call) for pattern in LEFT_OUT)]


# tests/test_tutorials.py runs the commands of tutorials and how-tos in their order
OTHERS = {"CHANGELOG.md", "tutorials", "howto"}
WITH_COMMANDS = [page for page in PAGES if commands(page) and not OTHERS & {page.name, page.parent.name}]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the commands name: texts, a data folder, an encoder, and adapters that ship with it."""
    folder = write_group(tmp_path_factory.mktemp("commands"))
    (folder / "texts").mkdir()
    for name in TEXTS:
        (folder / name).write_text("Hetta er ein lítil roynd. Skipið fór úr Havn.\n", encoding="utf-8")
    for name, code in {"icelandic": "is", "german": "de", "faroese": "fo", "finnish": "en"}.items():
        (folder / f"{name}.txt").write_text("\n".join(MADE.text(ACTORS[code], 400)), encoding="utf-8")
    (folder / "more-german.txt.xz").write_bytes(lzma.compress(b"paki jah\n" * 50))
    bank = [LanguageAdapter.new(code, 16, 2) for code in ("en", "is", "de")]
    save_adapters(folder / "shipped" / "adapters.safetensors", bank)
    for split in ("train", "dev"):  # a language that becomes a source
        (folder / "data" / "pos" / "fi").mkdir(exist_ok=True)
        made = (folder / "data" / "pos" / "en" / f"{split}.tsv").read_bytes()
        (folder / "data" / "pos" / "fi" / f"{split}.tsv").write_bytes(made)
    return folder


def complete(call: str, number: int) -> list[str]:
    """A command with the settings that make it quick, and with what its "…" leaves out."""
    words = [word for word in shlex.split(re.sub(r"\s>.*", "", call))[1:] if word != "…"]
    if words[0] in SMALL and "--help" not in words:
        more = SMALL[words[0]] | {"--encoder": "encoder"}
        if words[0] == "train":
            more |= {"--data": "DIR", "--output": f"out-{number}"}
            more |= {} if "--sources" in words else {"--group": "germanic"}
        words += [part for name, value in more.items() if name not in words for part in (name, value)]
    return ["data" if word == "DIR" else word for word in words]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::zgul.errors.ZgulWarning")
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(
    page: Path, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for item in prepared.iterdir():
        (tmp_path / item.name).symlink_to(item)
    monkeypatch.chdir(tmp_path)
    for number, call in enumerate(commands(page)):
        words = complete(call, number)
        with monkeypatch.context() as patch:
            if words[0] in SMALL or "--model" in words:
                patch.setenv("ZGUL_TAGGERS", str(prepared / "shipped"))
            done = CliRunner().invoke(app, words, input="Japuonj Grace Akinyi nobiro Kisumu tarik 12 Mei.\n")
        assert done.exit_code == 0, f"{call}: {done.exception or done.output}"


def test_the_pages_that_show_commands_are_tested() -> None:
    assert {"README.md", "tagging.md", "training.md", "CONTRIBUTING.md"} <= {page.name for page in WITH_COMMANDS}
    assert any("shipped,fo" in call for page in WITH_COMMANDS for call in commands(page))
