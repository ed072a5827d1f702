"""Progress of long work is reported as one kind of object."""

from zgul.progress import Status, counter, silent, within


def test_a_counter_reports_the_sum_and_never_more_than_all() -> None:
    heard: list[Status] = []
    count = counter(heard.append, "reading", 5)
    for more in (2, 0, 2, 4):
        count(more)
    assert heard == [Status("reading", done, 5) for done in (2, 2, 4, 5)]


def test_work_inside_other_work_is_named() -> None:
    heard: list[Status] = []
    within(within(heard.append, "without is"), "seed 1")(Status("training", 1, 2, {"loss": 0.5}))
    assert heard == [Status("without is: seed 1: training", 1, 2, {"loss": 0.5})]
    silent(heard[0])
