"""The paper's evaluation on a Ray cluster gives the scores that one process gives."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from small_experiment import SMALL, write_experiment
from zgul.cluster.paper_runs import ASKED, RemoteStore, StoreKeeper, run_paper_on_cluster
from zgul.cluster.ray_cluster import ClusterSettings
from zgul.paper.experiments import Experiment, run_paper
from zgul.paper.store import Store


def test_a_task_asks_the_keeper_of_the_store(tmp_path: Path) -> None:
    keeper = StoreKeeper(str(tmp_path))
    store = RemoteStore(tmp_path, keeper.ask)
    assert store.status("none") == "" and store.scored("none") == set() and store.gold_keys() == []
    assert store.run_folder("a") == Store(tmp_path).run_folder("a")
    with store.lock("a"):
        assert (tmp_path / "locks" / "a").exists()
    assert all(callable(getattr(Store, name)) for name in ASKED)


@pytest.fixture
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_runs_as_tasks(cluster: Any, tmp_path: Path) -> None:
    protocol = replace(SMALL, examples=(0, 4), shares=(1.0,))
    only = ["zero-shot/germanic/zgul", "few-shot/germanic/zgul"]
    here = Experiment(write_experiment(tmp_path), protocol, tmp_path / "here", only)
    there = replace(here, output=tmp_path / "there")
    alone = run_paper(here, workers=0)
    outcome = run_paper_on_cluster(there, ClusterSettings("ray", workers=2))
    assert (outcome.done, outcome.failed) == (alone.done, {}) and alone.done > 1
    first, second = ({(s.run, s.row, s.language): s.f1 for s in Store(e.output).scores()} for e in (here, there))
    assert first == second
    assert run_paper_on_cluster(there, ClusterSettings("ray", workers=2)).done == 0, "nothing is done twice"
