"""Connect to a Ray cluster, or start one on this machine."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from zgul.errors import ZgulError
from zgul.options import Options, option

CLUSTER_PANEL = "Cluster"
_option = partial(option, panel=CLUSTER_PANEL)
OBJECTS = 500_000_000  # bytes for shards on their way, in a cluster that is started here
RETRIES = 5  # of a task whose process or machine died


@dataclass(frozen=True)
class ClusterSettings(Options):
    """Where the work is done."""

    engine: str = _option("local", "Where to compute: in this process, or on a Ray cluster.", choices=("local", "ray"))
    ray_address: str = _option("", "Address of a running Ray cluster, or auto [default: start one here].")
    workers: int = _option(0, "Most workers at a time [default: one for each core, or each GPU].", least=0)


@contextlib.contextmanager
def connected(settings: ClusterSettings) -> Iterator[Any]:
    """The module ``ray``, connected. A cluster that was started here ends here."""
    try:
        import ray
    except ImportError as error:
        raise ZgulError("--engine ray needs another package: pip install 'zgul[ray]'") from error
    if ray.is_initialized():  # by the program that calls us
        yield ray
        return
    stopping = signal.getsignal(signal.SIGTERM)
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if settings.ray_address:
            ray.init(settings.ray_address, **quiet)
        else:
            _send_no_statistics()
            count = settings.workers or os.cpu_count()
            own = {"num_cpus": count, "include_dashboard": False, "object_store_memory": OBJECTS}
            ray.init("local", **own, **quiet)  # never one of somebody else that runs here
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        where = f"the Ray cluster at {settings.ray_address}" if settings.ray_address else "a Ray cluster here"
        raise ZgulError(f"Cannot use {where}: {' '.join(str(error).split())[:300]}") from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stopping)  # Ray has set its own
    try:
        yield ray
    finally:
        ray.shutdown()


def _send_no_statistics() -> None:
    """Keep a cluster that we start from telling Ray's makers about this machine, unless the user wants that."""
    with contextlib.suppress(ImportError):  # there is no public function for it
        from ray._common.usage import usage_lib

        if "RAY_USAGE_STATS_ENABLED" not in os.environ:
            usage_lib.set_usage_stats_enabled_via_env_var(False)


def slots(ray: Any, settings: ClusterSettings, on_gpu: bool) -> int:
    """How many tasks to keep on their way: some more than can run, so that no worker waits. Clusters may grow."""
    return settings.workers or 2 * max(1, int(ray.cluster_resources().get("GPU" if on_gpu else "CPU", 0)))


def resources(on_gpu: bool) -> dict[str, int]:
    """What a task needs."""
    return {"num_cpus": 1, "num_gpus": 1 if on_gpu else 0, "max_retries": RETRIES}


def reason(error: Exception) -> str:
    """Why a task failed, in one line."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, ZgulError):
        return str(cause)
    first = next((line for line in reversed(str(cause).strip().splitlines()) if line.strip()), "")
    return f"{type(cause).__name__}: {first.strip()}"
