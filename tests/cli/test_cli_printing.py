"""Progress bars: the time that is left, and what is said when work is stopped."""

import time

import pytest

from zgul.cli.printing import ProgressBars, TimeLeftColumn, stoppable
from zgul.progress import Status


def shown(bars: ProgressBars) -> str:
    (task,) = bars.progress.tasks
    return TimeLeftColumn().render(task).plain


def test_the_time_left_is_known_although_the_total_is_estimated() -> None:
    bars = ProgressBars(hidden=True)
    bars(Status("tagging", 0, 0))
    assert shown(bars) == "-:--:--"
    time.sleep(0.2)
    for done, total in ((100, 2000), (101, 1999), (102, 2001)):
        bars(Status("tagging", done, total))
        assert shown(bars) in ("0:00:03", "0:00:04", "0:00:05")
    bars(Status("tagging", 2001, 2001))
    assert shown(bars) == "0:00:00"


@pytest.mark.parametrize("resumed", [0, 900])
def test_what_was_done_before_does_not_count(resumed: int) -> None:
    bars = ProgressBars(hidden=True)
    bars(Status("training", resumed, resumed + 100))
    time.sleep(0.1)
    bars(Status("training", resumed + 10, resumed + 100))
    assert shown(bars) in ("0:00:01", "0:00:02")


def test_a_pipe_has_no_end() -> None:
    bars = ProgressBars(hidden=True)
    for done in (0, 100, 200):
        bars(Status("tagging", done, 0))
    assert shown(bars) == "-:--:--"


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ([], "nothing was saved yet"),
        (["checkpoint"], "the work so far is saved. Continue with the same command and --resume"),
    ],
)
def test_stopped_work_says_how_to_go_on(saved: list[str], message: str) -> None:
    with pytest.raises(KeyboardInterrupt, match=f"^{message}$"), stoppable(lambda: saved) as bars:
        bars(Status("training", 1, 2))
        raise KeyboardInterrupt
