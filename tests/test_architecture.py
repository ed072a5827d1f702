"""The rules of the house that can be checked: who imports whom, where speed may stand, sizes, names."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import zgul

ROOT = Path(zgul.__file__).parent
DOCS = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
FILES = sorted(ROOT.rglob("*.py"))
# A part imports only parts that stand before it.
ORDER = (
    ("errors",),
    ("files", "progress"),
    ("options",),
    ("download",),
    ("languages",),
    ("corpora",),
    ("evaluation",),
    ("devices", "tensors"),
    ("encoders",),
    ("adapters",),
    ("ensemble",),
    ("methods",),
    ("fast",),
    ("tagger",),
    ("training",),
    ("tagging",),
    ("adaptation",),
    ("paper", "serve"),
    ("cluster",),
    ("cli",),
)
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}
PLAIN = ("encoders", "adapters", "ensemble", "methods")  # the code that states the formulas
# Imported inside functions: optional packages, and what takes long and few need.
LATE = {
    "matplotlib",
    "spacy",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "zstandard",
    "torch.utils.tensorboard",
    "huggingface_hub",
    "fsspec",
    "ray",
    "anyascii",
    "zgul.serve",
}
# Lines of the core, and what features may add to them that came after it.
CORE = 15_000
ADDED = {
    "serve": 1_300,
    "adaptation": 1_280,
    "the files of adapted taggers": 300,
    "cluster": 860,
    "several processes": 180,
    "int8, jobs and small ONNX files": 760,
    "a quick start": 350,
    "ModernBERT": 300,
    "more sources, ciphers and romanised sentences": 120,
    "doctor, init and completion": 540,
    "what new users asked for": 405,
    "a quick start of zgul tag": 345,
    "documents that take little time and memory": 65,
    "reports that count seeds": 40,
    "averaged weights": 15,
    "faults that reviews and attacks found": 250,
}
FUNCTION, FORMULA_FILE = 60, 150
TOP = {"__init__", "__main__"}  # the package itself, above all parts


def part_of(file: Path) -> str:
    return file.relative_to(ROOT).parts[0].removesuffix(".py")


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        if node.module == "zgul":
            yield from (f"zgul.{alias.name}" for alias in node.names)


def name(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def test_imports_point_one_way() -> None:
    wrong = []
    for file in FILES:
        own = part_of(file)
        if own in TOP:
            continue
        for node in ast.walk(tree(file)):
            for module in imports(node):
                other = module.split(".")[1] if module.startswith("zgul.") else ""
                if other in RANK and other != own and RANK[other] >= RANK[own]:
                    wrong.append(f"{name(file)} imports {module}")
    assert not wrong


def test_every_part_has_a_place_and_stands_in_the_docs() -> None:
    parts = {part_of(file) for file in FILES} - TOP
    assert parts == set(RANK)
    text = DOCS.read_text(encoding="utf-8")
    assert not [part for part in parts if f"{part}/" not in text and f"{part}.py" not in text]


def test_plain_code_never_imports_the_fast_engine() -> None:
    for file in FILES:
        if part_of(file) in PLAIN:
            assert not [m for node in ast.walk(tree(file)) for m in imports(node) if m.startswith("zgul.fast")], file


def test_the_fast_engine_has_few_entries() -> None:
    entries = {"zgul.fast.engine": {"engine", "Engine"}, "zgul.fast.graphs": {"GraphedStep"}}
    entries["zgul.fast.adaptive"] = {"AdaptiveEM"}
    entries["zgul.fast.int8"] = {"fits", "to_whole_graph"}
    entries["zgul.fast.stored"] = {"VERSION", "storable", "write_model", "read_model"}
    for file in FILES:
        if part_of(file) != "fast":
            for node in ast.walk(tree(file)):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("zgul.fast"):
                    assert {alias.name for alias in node.names} <= entries[str(node.module)], file


def test_the_files_of_the_formulas_are_short_and_know_no_device() -> None:
    for file in (ROOT / "ensemble").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) < FORMULA_FILE, file
        assert not re.search(r"cuda|is_cuda|device\.type|num_threads|is_grad_enabled", text), file


def test_imports_stand_at_the_top_of_a_file() -> None:
    wrong = []
    for file in FILES:
        for function in (node for node in ast.walk(tree(file)) if isinstance(node, ast.FunctionDef)):
            for node in ast.walk(function):
                for module in imports(node):
                    if not any(module == late or module.startswith(f"{late}.") for late in LATE):
                        wrong.append(f"{name(file)}, {function.name}: {module}")
    assert not [entry for entry in wrong if not entry.startswith(("__init__.py", "tagging/__init__.py"))]  # lazy names


def test_no_two_modules_or_classes_share_a_name() -> None:
    modules, classes = defaultdict(list), defaultdict(list)
    for file in FILES:
        if file.stem not in ("__init__", "__main__"):
            modules[file.stem].append(name(file))
        for node in tree(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(name(file))
    packages = {folder.name for folder in ROOT.rglob("*") if (folder / "__init__.py").is_file()}
    assert not {key: found for key, found in modules.items() if len(found) > 1}
    assert not {key: found for key, found in classes.items() if len(found) > 1}
    assert {key for key in modules if key in packages} <= {"tagger"}  # the module that gives its package the name


def test_functions_fit_on_a_screen() -> None:
    long = []
    for file in FILES:
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION:
                    long.append(f"{name(file)}, {node.name}: {lines} lines")
    assert not long


def test_the_source_stays_small() -> None:
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert sum(lines.values()) <= CORE + sum(ADDED.values()), f"{sum(lines.values()):,} lines"
    for part in set(ADDED) & set(RANK):  # features that are parts of their own, with their commands
        command = f"{'adapt' if part == 'adaptation' else part}_command"
        own = sum(count for file, count in lines.items() if part_of(file) == part or file.stem == command)
        assert own <= ADDED[part], f"{part}: {own:,} lines"


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (r"os\.environ\[[^]]+\]\s*=|os\.environ\.(setdefault|update)|putenv", "sets an environment variable"),
        (
            r"torch\.backends\.[\w.]+ = |fp32_precision = |set_float32_matmul_precision|set_num_interop",
            "sets a flag of the whole process",
        ),
        (r"torch\.ops\.|torch\._(?!_version)|(?<!backends)\.mkldnn", "calls a private operator of torch"),
        (r"pickle\.load|torch\.load\((?![^)]*weights_only=True)", "reads a pickle"),
    ],
)
def test_what_no_module_does(pattern: str, what: str) -> None:
    for file in FILES:
        if (name(file), what) != ("cli/products.py", "sets a flag of the whole process"):  # a process of zgul's own
            assert not re.search(pattern, file.read_text(encoding="utf-8")), f"{name(file)} {what}"
