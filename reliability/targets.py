"""What is fuzzed, by name."""

from collections.abc import Callable
from pathlib import Path

from reliability.cases import Target
from reliability.configurations import Configurations
from reliability.faulty import Faulty
from reliability.model_folders import ModelFolders
from reliability.readers import Readers
from reliability.segmenter import Segmenter
from reliability.service_requests import ServiceRequests

TARGETS: dict[str, Callable[[Path], Target]] = {
    "readers": Readers,
    "segmenter": Segmenter,
    "configurations": Configurations,
    "folders": ModelFolders,
    "requests": ServiceRequests,
}
EVERY = TARGETS | {"faulty": Faulty}  # with one that proves that the fuzzer sees failures
