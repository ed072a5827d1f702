"""The options of the service, with its limits."""

from dataclasses import dataclass

from zgul.devices import find_device, find_precision
from zgul.errors import ZgulError
from zgul.options import Options, option

MAX_EM_STEPS = 20
MAX_EM_RATE = 1000.0
PRECISION = "auto is int8 where it is fast and keeps the tagger's F1, else float32."
LIMITS, MACHINE = "Limits", "Machine"


@dataclass(frozen=True)
class ServeConfig(Options):
    """Where the service listens, who may use it, and how much it takes from anyone."""

    host: str = option("127.0.0.1", "Address to listen on; 0.0.0.0 lets other machines in.")
    port: int = option(8000, "Port to listen on; 0 takes any free one.", least=0, most=65535)
    open: bool = option(True, "Open the page in a browser, where there is a display.")
    api_key: str = option("", "Key that clients must send; better given as ZGUL_API_KEY, which others cannot see.")
    cors: str = option("", "Origin whose pages may use the service, such as https://example.org.")
    device: str = option("cpu", "Where to compute; mps is for Macs.", metavar="cpu|cuda|mps|auto", panel=MACHINE)
    precision: str = option("auto", PRECISION, metavar="auto|float32|bfloat16|int8", panel=MACHINE)
    workers: int = option(1, "Batches that are tagged side by side.", least=1, most=64, panel=MACHINE)
    max_bytes: int = option(2_000_000, "Bytes of a request, and of a file when unpacked.", least=1000, panel=LIMITS)
    max_words: int = option(20_000, "Words of a request.", least=1, panel=LIMITS)
    max_sentence: int = option(1000, "Words of a sentence, which is tagged in one piece.", least=1, panel=LIMITS)
    max_texts: int = option(1000, "Texts of a request.", least=1, panel=LIMITS)
    max_seconds: float = option(60.0, "Seconds that a request may take.", above=0, panel=LIMITS)
    max_requests: int = option(200, "Requests that are answered at one time.", least=1, panel=LIMITS)
    max_waiting: int = option(200_000, "Words that may wait, of all requests together.", least=1, panel=LIMITS)
    max_explained: int = option(100, "Words of a sentence that is explained.", least=1, panel=LIMITS)
    grace: int = option(20, "Seconds to finish what is begun when the service is stopped.", least=0, panel=LIMITS)

    def __post_init__(self) -> None:
        super().__post_init__()
        find_device(self.device)
        find_precision(self.precision)
        if self.max_waiting < self.max_words:
            raise ZgulError("max_waiting is less than max_words, so the largest request could never be taken.")

    @property
    def limits(self) -> dict[str, int | float]:
        """What a client may send, for /v1/config."""
        sizes: dict[str, int | float] = {"bytes": self.max_bytes, "words": self.max_words, "texts": self.max_texts}
        return sizes | {"seconds": self.max_seconds, "explain_words": self.max_explained, "em_steps": MAX_EM_STEPS}
