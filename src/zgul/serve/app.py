"""The routes of the service. ``api.json`` describes their answers to OpenAPI; the page is in the folder ``page``."""

import asyncio
import json
import threading
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse
from starlette.staticfiles import StaticFiles

from zgul import __version__
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError
from zgul.languages import feature_source, find
from zgul.serve.explanation import explain
from zgul.serve.guards import Gate, Watch
from zgul.serve.language_info import details, search, summary
from zgul.serve.metrics import Metrics
from zgul.serve.problems import Problem, answer_error, answer_invalid, blame
from zgul.serve.schemas import ExplainRequest, SentencesToWrite, TagRequest
from zgul.serve.serve_config import ServeConfig
from zgul.serve.text_service import TextService, find_language, script_warnings, word_sentence
from zgul.serve.uploads import read_upload
from zgul.tagging.display import LEGEND
from zgul.tagging.documents import Layer, TaggedSentence

FOLDER = Path(__file__).parent
PAGE = FOLDER / "page"
SENTENCES: list[dict[str, str]] = tomllib.loads((FOLDER / "examples.toml").read_text("utf-8"))["examples"]
API: dict[str, Any] = json.loads((FOLDER / "api.json").read_text("utf-8"))
KEPT = {"Cache-Control": "max-age=3600"}
ENDINGS = ("", "_probabilities", "_weights")  # of the columns of a tagged sentence
router = APIRouter()


def _described(route: str) -> dict[str, Any]:
    """What OpenAPI says of a route: its answer and its errors, with examples."""
    error = {"application/json": {"schema": API["error"]}}
    responses: dict[str, Any] = {code: {"description": text, "content": error} for code, text in API["errors"].items()}
    responses["200"] = {"description": "The answer.", "content": API[route]["answer"]}
    return {"responses": responses, "openapi_extra": API[route].get("extra"), "response_class": Response}


def _service(request: Request) -> TextService:
    service: TextService = request.app.state.service
    return service


@router.post("/v1/tag", **_described("/v1/tag"))
async def tag(request: Request, body: TagRequest) -> Response:
    """Tag texts: parts of speech, named entities, or both."""
    content, request.state.words = await _service(request).tag(body)
    return Response(content, media_type="application/json")


@router.post("/v1/explain", **_described("/v1/explain"))
async def explain_sentence(request: Request, body: ExplainRequest) -> Response:
    """Explain the tags of one sentence: how sure they are and which source languages they rest on, at each EM step."""
    service = _service(request)
    if len(body.words) > service.config.max_explained:
        raise Problem(413, f"There are more than {service.config.max_explained} words. Send one sentence.", "words")
    stopped = threading.Event()
    work = partial(_explain, service, body, stopped)
    try:
        answer = await asyncio.get_running_loop().run_in_executor(service.explaining, work)
    finally:
        stopped.set()
    request.state.words = len(body.words)
    return JSONResponse(answer)


def _explain(service: TextService, body: ExplainRequest, stopped: threading.Event) -> dict[str, Any]:
    spoken = find_language(body.lang, " ".join(body.words), "lang")
    sentence = word_sentence(body.words, body.word_langs, spoken, "word_langs")
    loaded = service.load(spoken.language, task=body.task, adapted=body.adapted)
    warnings = spoken.warnings + [one.warning for one in loaded.served.values() if one.warning]
    with blame("words"):
        warnings += script_warnings(loaded, [sentence])
    tagger = loaded.taggers[body.task]
    tuned = tagger.em_for(spoken.language.code, "em") or EMConfig()
    rate = body.em_lr if body.em_lr is not None else tuned.lr if tuned.steps else EMConfig().lr
    answer = explain(tagger, sentence, replace(tuned, steps=body.em_steps, lr=rate), stopped.is_set)
    return answer | {"language": spoken.to_dict(), "warnings": warnings}


@router.post("/v1/read", **_described("/v1/read"))
async def read_file(request: Request) -> Response:
    """Read a file (txt, CoNLL-U, docx, odt; also packed as .gz, .xz or .bz2) to text that can be tagged."""
    limit = _service(request).config.max_bytes
    try:
        parser = MultiPartParser(request.headers, request.stream(), max_files=1, max_fields=0)
        parser.spool_max_size = limit + 1  # in memory: nothing is written to a disk
        file = (await parser.parse()).get("file")
    except (MultiPartException, KeyError) as error:
        raise Problem(400, "The body is not a form with one file. Send one file in the field called file.") from error
    if not isinstance(file, UploadFile):
        raise Problem(422, "The file is missing. Send one file in the field of this name.", "file")
    content = await file.read()
    return JSONResponse(await asyncio.to_thread(read_upload, file.filename or "", content, limit))


@router.post("/v1/conllu", **_described("/v1/conllu"))
def write_sentences(body: SentencesToWrite, format: Literal["conllu", "tsv", "json"] = "conllu") -> Response:
    """Write tagged sentences, perhaps corrected by hand, as `zgul tag` writes them."""
    texts = []
    for number, sentence in enumerate(body.sentences, start=1):
        columns = {"pos": "upos", "ner": "ner"}
        values = {task: [getattr(sentence, column + end) for end in ENDINGS] for task, column in columns.items()}
        layers = {task: Layer(t, p or [1.0] * len(t), w) for task, (t, p, w) in values.items() if t is not None}
        places = (sentence.text, sentence.words, sentence.offsets, layers, sentence.language, sentence.start)
        with blame(f"sentences.{number - 1}"):
            tagged = TaggedSentence(*places, opens="document" if number == 1 else sentence.opens)
            texts.append(tagged.to_text(format, number))
    return PlainTextResponse("".join(texts))


@router.get("/v1/languages", **_described("/v1/languages"))
def languages(
    q: Annotated[str, Query(description="A code or any name, or a part of it.", max_length=100)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """Search languages, best first. Without a query these are the paper's."""
    return JSONResponse({"languages": list(map(summary, search(q, limit)))}, headers=KEPT)


@router.get("/v1/languages/{code}", **_described("/v1/languages/{code}"))
def language(code: Annotated[str, PathParameter(max_length=100)]) -> Response:
    """Show who a language is, which taggers serve it, and what accuracy to expect."""
    try:
        found = find(code)
        feature_source(found.iso3)
    except ZgulError as error:
        raise Problem(404, str(error), "code") from error
    return JSONResponse(details(found.iso3), headers=KEPT)


@router.get("/v1/examples", **_described("/v1/examples"))
def examples() -> Response:
    """Sentences in languages that no tagger was trained on."""
    about = [summary(find(one["lang"])) for one in SENTENCES]
    named = [{"name": each["name"], "direction": each["direction"]} for each in about]
    return JSONResponse({"examples": [one | more for one, more in zip(SENTENCES, named, strict=True)]}, headers=KEPT)


@router.get("/v1/config", **_described("/v1/config"))
def configuration(request: Request) -> Response:
    """The version, the limits, and what the tags mean."""
    config = _service(request).config
    tags = {task: {tag: meaning for tag, (meaning, _) in LEGEND[task].items()} for task in ("pos", "ner")}
    about = {"version": __version__, "limits": config.limits, "key_needed": bool(config.api_key), "tags": tags}
    return JSONResponse(about)


@router.get("/healthz", **_described("/healthz"))
def health() -> Response:
    """Whether the service is up."""
    return JSONResponse({"status": "ok"})


@router.get("/metrics", **_described("/metrics"))
async def metrics(request: Request) -> Response:
    """Counts and times for Prometheus."""
    counted: Metrics = request.app.state.metrics
    counted.waiting.set(_service(request).batcher.waiting)
    return PlainTextResponse(counted.text())


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: TextService = app.state.service
    workers = [asyncio.create_task(service.batcher.run()) for _ in range(service.config.workers)]
    loading = asyncio.create_task(asyncio.to_thread(service.load_all))
    yield
    loading.cancel()
    for worker in workers:
        worker.cancel()
    for pool in (service.pool, service.explaining):
        pool.shutdown(wait=False, cancel_futures=True)


def create_app(config: ServeConfig, page: Path = PAGE) -> FastAPI:
    """The service as an ASGI app, with the page in this folder."""
    about = {"title": "zgul", "version": __version__, "description": "Tags text in languages without labelled data."}
    app = FastAPI(**about, docs_url=None, redoc_url=None, lifespan=_lifespan)  # type: ignore[arg-type]
    app.state.metrics = Metrics()
    app.state.service = TextService(config, app.state.metrics)
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=page, check_dir=False))
    app.add_api_route("/", lambda: FileResponse(page / "index.html"), include_in_schema=False)
    app.add_exception_handler(HTTPException, answer_error)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_middleware(Gate, config=config)
    app.add_middleware(Watch, metrics=app.state.metrics)
    if config.cors:  # what is added last stands first
        allowed: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": ["Authorization", "Content-Type"]}
        app.add_middleware(CORSMiddleware, allow_origins=[config.cors], **allowed)
    return app
