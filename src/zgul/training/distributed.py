"""Training in several processes, which ``torchrun`` starts: ``torchrun --nproc-per-node 2 -m zgul train …``.

Every process reads all data, computes its part of each batch, and adds its gradients to those of the others. So all
have the same weights after each step: those of one process with the whole batch, up to rounding. Only the first process
writes files and prints. Checkpoints do not depend on the number of processes.

A command runs inside `processes`. The other functions do nothing, or give the answer for one process, outside of it.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, distributed

from zgul.errors import ZgulError

T = TypeVar("T")
TIMEOUT = timedelta(hours=2)  # for the slowest process, for example while it reads


@contextlib.contextmanager
def processes(device: str = "auto") -> Iterator[None]:
    """Join the other processes, if ``torchrun`` started several: by NCCL on GPUs, else by Gloo."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "RANK" not in os.environ or count() > 1:
        yield
        return
    on_gpu = torch.cuda.is_available() and device != "cpu"
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group("nccl" if on_gpu else "gloo", timeout=TIMEOUT)
    own = rank()
    try:
        with contextlib.ExitStack() as stack:
            if own:
                nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
                stack.enter_context(contextlib.redirect_stdout(nowhere))
                stack.enter_context(contextlib.redirect_stderr(nowhere))
            yield
            wait()  # a process that leaves early may break the connections of the others
    except ZgulError as error:
        raise ZgulError(f"process {own}: {error}" if own else str(error)) from error
    finally:
        distributed.destroy_process_group()


def count() -> int:
    """The number of processes."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    return distributed.get_rank() if count() > 1 else 0


def is_first() -> bool:
    """Whether this process writes and prints."""
    return rank() == 0


def wait() -> None:
    """Wait until all processes are here."""
    if count() > 1:
        distributed.barrier()


def own_part(size: int) -> slice:
    """The part of so many sentences that this process computes."""
    return slice(rank() * size // count(), (rank() + 1) * size // count())


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether a process, this or another one, says yes."""
    if count() == 1:
        return flag
    flags = torch.tensor(float(flag), device=device)
    distributed.all_reduce(flags)
    return bool(flags)


def of_first(value: T) -> T:
    """What the first process has, such as a score: rounding must not make processes decide differently."""
    if count() == 1:
        return value
    shared = [value]
    distributed.broadcast_object_list(shared, 0)
    return shared[0]


def check_same(fingerprint: str) -> None:
    """Refuse processes that have other data or settings than the first."""
    if count() > 1:
        others: list[str] = [""] * count()
        distributed.all_gather_object(others, fingerprint)
        if different := [str(number) for number, other in enumerate(others) if other != others[0]]:
            named = f"Process {', '.join(different)} has"
            raise ZgulError(f"{named} other data or settings than the first. Copy them anew.")


def seed_step(seed: int, step: int) -> None:
    """Draw what dropout drops from the step and the process, so that a resumed run draws the same."""
    if count() > 1:
        torch.manual_seed((seed * 1_000_003 + step) * 4096 + rank())


@torch.no_grad()
def sum_gradients(weights: Sequence[Tensor], loss: Tensor) -> None:
    """Add up the gradients of all processes, and their losses. A weight that no process used stays without gradient."""
    if count() == 1:
        return
    used = torch.tensor([float(weight.grad is not None) for weight in weights], device=loss.device)
    grads = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
    together = torch.cat([used, loss.reshape(1), *(grad.flatten().to(used.dtype) for grad in grads)])
    distributed.all_reduce(together)
    used, total, *summed = torch.split(together, [len(used), 1, *(grad.numel() for grad in grads)])
    loss.copy_(total[0])
    for weight, some, grad, own in zip(weights, used.tolist(), summed, grads, strict=True):
        weight.grad = own.copy_(grad.view_as(own)) if some else None
