"""The registry of rows names every row of the paper, and what it says of a row can be run."""

import subprocess
import sys

from zgul.methods import METHODS
from zgul.paper import numbers, rows


def test_every_row_can_be_run():
    assert set(rows.TRAINED) == set(METHODS)
    for row in rows.ROWS:
        METHODS[row.method].check_strategy(row.strategy)
        assert METHODS[row.method].uses_em(row.strategy) == (row.em is not None), row.title


def test_titles_are_unique_and_the_papers_rows_are_all_there():
    titles = [row.title for row in rows.ROWS]
    assert len(set(titles)) == len(titles)
    for table in numbers.ZERO_SHOT.values():
        assert list(table.values) == [title for title in rows.ZERO_SHOT if title != "MADX^multi-En"]
    assert set(numbers.UNLABELLED.values) - {numbers.TEXT_SIZE} == set(rows.TARGET_TEXT)
    assert set(numbers.XLMR["germanic"].values) <= set(rows.ZERO_SHOT)


def test_target_text_rows_say_what_they_need():
    needs = {row.title: tuple(row.needs) for row in rows.ROWS}
    assert needs["MADX^multi-Tgt"] == (rows.TARGET_ADAPTER,) == needs["ZGUL++ w/o adapted encoder"]
    assert needs["SFT++"] == (rows.TARGET_ENCODER,) == needs["ZGUL++ w/o target adapter"]
    assert needs["ZGUL++"] == (rows.TARGET_ENCODER, rows.TARGET_ADAPTER)
    assert not any(needs[title] for title in rows.ZERO_SHOT)


def test_a_run_records_a_row_as_plain_values():
    (control,) = [row for row in rows.ROWS if row.title == "ZGUL, EM T=1 lr=0 from probabilities"]
    assert control.inference() == {
        "row": control.title, "strategy": "em", "em": {"steps": 1, "lr": 0.0}, "start": "probabilities",
        "weights": False,
    }  # fmt: skip
    assert [row.title for row in rows.rows_of("zgul", "zero-shot")] == ["ZGUL", "ZGUL w/o EM"]
    assert [row.title for row in rows.rows_of("madx-multi", "em")] == ["MADX^multi-EMEA, EM on target dev"]


def test_rows_and_numbers_do_not_load_torch():
    code = "import sys, zgul.paper.rows, zgul.paper.numbers; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
