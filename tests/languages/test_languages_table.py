"""The table: small, quick, whole."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from zgul.languages.language import TABLE_FILE, load_table

TABLE = load_table()


def test_small_and_quick() -> None:
    assert TABLE_FILE.stat().st_size < 1_000_000
    times = []
    for _ in range(5):
        load_table.cache_clear()
        start = time.process_time()
        load_table()
        times.append(time.process_time() - start)
    assert min(times) < 0.05


def test_needs_neither_torch_nor_transformers() -> None:
    code = "import sys, zgul.languages; zgul.languages.find('fo'); print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'numpy'" in loaded
    assert not {"'torch'", "'transformers'", "'scipy'"} & set(loaded.strip("[]\n").split(", "))


def test_columns_are_whole() -> None:
    count = len(TABLE.iso3)
    assert count > 7900
    columns = (TABLE.iso1, TABLE.name, TABLE.autonym, TABLE.aliases, TABLE.scripts, TABLE.territory, TABLE.area)
    assert {len(column) for column in columns} == {count}
    assert len(TABLE.family) == len(TABLE.parent) == count
    assert len(set(TABLE.iso3)) == count
    short = [code for code in TABLE.iso1 if code]
    assert len(short) == len(set(short)) > 180
    assert all(TABLE.name)
    assert set(TABLE.area) == {"", "Africa", "Americas", "Asia", "Europe", "Oceania"}


def test_feature_sets() -> None:
    prefixes = [name.split("_")[0] for name in TABLE.feature_names]
    assert prefixes == ["S"] * 103 + ["P"] * 28 + ["INV"] * 158
    assert TABLE.features.shape == (len(TABLE.iso3), 289)
    assert set(np.unique(TABLE.features)) == {0, 1}
    assert TABLE.features[TABLE.has_features].any(axis=1).all()
    assert not TABLE.features[~TABLE.has_features].any()
    assert TABLE.has_features.sum() == 7970 - 6  # of URIEL's codes two are doubles, four are no languages


def test_the_family_tree_has_no_loops() -> None:
    for row in range(len(TABLE.iso3)):
        lineage = TABLE.lineage(row)
        assert len(set(lineage)) == len(lineage) < 20


@pytest.mark.network
@pytest.mark.slow
def test_the_build_script_makes_the_shipped_table(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "scripts/build_uriel.py"
    pins = ["lang2vec==1.1.2", "urielplus==1.3.2", "language_data==1.4.0", "babel==2.18.0"]
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(tmp_path), *pins]
    if subprocess.run(download, capture_output=True, check=False, timeout=300).returncode:
        pytest.skip("needs a package index with the four wheels the table is built from")
    built = tmp_path / "built.npz"
    subprocess.run([sys.executable, script, "--wheels", tmp_path, "--output", built], check=True, timeout=300)
    with np.load(built) as new, np.load(TABLE_FILE) as shipped:
        assert new.files == shipped.files
        for name in new.files:
            np.testing.assert_array_equal(new[name], shipped[name])
