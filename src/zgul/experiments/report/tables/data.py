"""What was read: statistics of the data, example sentences, checksums."""

from __future__ import annotations

from typing import Any

from zgul.experiments.report.document import Cell, Column, Row, Table
from zgul.experiments.report.frame import COMPARED
from zgul.experiments.report.tables.common import group_title
from zgul.languages import find


def data_groups(statistics: dict[str, Any], limit: int = 0) -> Table:
    """What there is; ``limit``: of how many sentences of a source the runs read at most."""
    rows = []
    for row in statistics["groups"]:
        missing = f" (without {', '.join(row['missing'])})" if row["missing"] else ""
        rows.append(
            Row(
                group_title(row["group"]),
                (
                    Cell(text=row["task"].upper()),
                    Cell(text=", ".join(row["sources"]) + missing),
                    Cell(row["train"], paper=row["paper_train"], digits=0),
                    Cell(row["dev"], paper=row["paper_dev"], digits=0),
                    Cell(text=" ".join(row["test_tags"])),
                ),
            )
        )
    columns = tuple(map(Column, ("Task", "Sources", "Train sentences", "Dev sentences", "Tags of the test sets")))
    caption = "Training data of each group, all sources together: sentences there are, the paper's beside"
    caption += f"; the runs read at most {limit:,} of each source" if limit else ""
    return Table("data-groups", caption, columns, tuple(rows), "Group")


def data_targets(statistics: dict[str, Any], language: str | None = None) -> Table | None:
    rows = []
    for row in statistics["targets"]:
        if language not in (None, row["language"]):
            continue
        rows.append(
            Row(
                f"{find(row['language']).name} ({row['language']})",
                (
                    Cell(text=group_title(row["group"])),
                    Cell(text=_script(row)),
                    Cell(row["sentences"], paper=row["paper_sentences"], digits=0),
                    Cell(row["overlap"], paper=row["paper_overlap"]),
                ),
            )
        )
    if not rows:
        return None
    columns = tuple(map(Column, ("Group", "Script", "Test sentences", "Overlap, %")))
    caption = (
        "Test languages: script, size and overlap with the sources' training data (share of running words that occur "
        "there), the paper's numbers beside"
    )
    return Table(f"data-{language or 'targets'}", caption, columns, tuple(rows), "Language")


def _script(row: dict[str, Any]) -> str:
    own, published = row["script"], row["paper_script"]
    return str(own) if own == published else f"{own} (paper: {published})"


def example(item: dict[str, Any], number: int) -> Table:
    """A sentence with its gold tags and what each method says; wrong tags are bold."""
    rows = [Row("gold", tuple(Cell(text=tag) for tag in item["gold"]))]
    for row in COMPARED:
        pairs = zip(item["tags"][row], item["gold"], strict=True)
        rows.append(Row(row, tuple(Cell(text=tag, bold=tag != gold) for tag, gold in pairs)))
    name = find(item["language"]).name
    caption = f"{name}, test sentence {item['sentence']}, seed {item['seed']}; wrong tags in bold"
    columns = tuple(Column(word) for word in item["words"])
    return Table(f"example-{item['language']}-{number}", caption, columns, tuple(rows), "", sortable=False)


def checksums(found: dict[str, str]) -> Table:
    rows = tuple(Row(name, (Cell(text=value),)) for name, value in sorted(found.items()) if value)
    return Table("checksums", "Checksums of what the runs read", (Column("sha256"),), rows, "File")
