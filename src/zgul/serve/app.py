"""The routes of the service. The page is in the folder ``page``, the examples of the API in ``api_examples.json``."""

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
from starlette.responses import FileResponse, PlainTextResponse
from starlette.staticfiles import StaticFiles

from zgul import __version__
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError
from zgul.languages import feature_source, find
from zgul.serve import schemas as s
from zgul.serve.explanation import explain
from zgul.serve.guards import Gate, Watch
from zgul.serve.language_info import details, search
from zgul.serve.metrics import Metrics
from zgul.serve.problems import Problem, answer_http, answer_invalid, answer_problem, blame
from zgul.serve.serve_config import ServeConfig
from zgul.serve.text_service import TextService, find_language, language_dict, script_warnings, word_sentence
from zgul.serve.uploads import read_upload
from zgul.tagging.display import LEGEND
from zgul.tagging.documents import Layer, TaggedSentence

FOLDER = Path(__file__).parent
PAGE = FOLDER / "page"
SENTENCES: list[dict[str, str]] = tomllib.loads((FOLDER / "examples.toml").read_text("utf-8"))["examples"]
API_EXAMPLES: dict[str, Any] = json.loads((FOLDER / "api_examples.json").read_text("utf-8"))
KEPT, FRESH = {"Cache-Control": "max-age=3600"}, {"Cache-Control": "no-cache"}
ENDINGS = ("", "_probabilities", "_weights")  # of the columns of a tagged sentence
ERRORS = {400: "The body is no JSON.", 401: "The key is missing.", 404: "There is no such thing.", 408: "Too slow."}
ERRORS |= {405: "Another method.", 413: "Too large.", 415: "Another kind of body.", 422: "A field is wrong."}
ERRORS |= {503: "Too busy; try again.", 504: "It took too long."}
router = APIRouter()


def _described(route: str) -> dict[str, Any]:
    """What OpenAPI says of a route beside its models: the errors, and an example."""
    example = API_EXAMPLES[route]
    responses: dict[int, Any] = {code: {"model": s.ErrorResponse, "description": text} for code, text in ERRORS.items()}
    responses[200] = {"content": {example.get("type", "application/json"): {"example": example["response"]}}}
    return {"responses": responses, "openapi_extra": example.get("extra")}


def _service(request: Request) -> TextService:
    service: TextService = request.app.state.service
    return service


@router.post("/v1/tag", response_model=s.TagResponse, **_described("/v1/tag"))
async def tag(request: Request, body: s.TagRequest) -> Response:
    """Tag texts: parts of speech, named entities, or both."""
    content, request.state.words = await _service(request).tag(body)
    return Response(content, media_type="application/json")


@router.post("/v1/explain", response_model=s.ExplainResponse, **_described("/v1/explain"))
async def explain_sentence(request: Request, body: s.ExplainRequest) -> Response:
    """Explain the tags of one sentence: how sure they are and which source languages they rest on, at each EM step."""
    service = _service(request)
    if len(body.words) > service.config.max_explained:
        raise Problem(413, f"There are more than {service.config.max_explained} words. Send one sentence.", "words")
    stopped = threading.Event()
    work = partial(_explain, service, body, stopped)
    try:
        answer = await asyncio.get_running_loop().run_in_executor(service.pool, work)
    finally:
        stopped.set()
    request.state.words = len(body.words)
    return Response(answer, media_type="application/json")


def _explain(service: TextService, body: s.ExplainRequest, stopped: threading.Event) -> str:
    language, guessed, warnings = find_language(body.lang, " ".join(body.words), "lang")
    sentence = word_sentence(body.words, body.word_langs, language, "word_langs")
    loaded = service.tagger_for(language, body.task, {}, False)
    with blame("words"):
        warnings += script_warnings(loaded, [sentence])
    warnings += filter(None, [loaded.served[body.task].warning])
    tagger = loaded.taggers[body.task]
    tuned = tagger.em_for(language.code, "em") or EMConfig()
    rate = body.em_lr if body.em_lr is not None else tuned.lr if tuned.steps else EMConfig().lr
    answer = explain(tagger, sentence, replace(tuned, steps=body.em_steps, lr=rate), stopped.is_set)
    answer |= {"language": language_dict(language, guessed), "warnings": warnings}
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


@router.post("/v1/read", response_model_exclude_unset=True, **_described("/v1/read"))
async def read_file(request: Request) -> s.ReadResponse:
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
    return s.ReadResponse(**await asyncio.to_thread(read_upload, file.filename or "", content, limit))


@router.post("/v1/conllu", response_class=PlainTextResponse, **_described("/v1/conllu"))
def write_sentences(body: s.SentencesToWrite, format: Literal["conllu", "tsv", "json"] = "conllu") -> str:
    """Write tagged sentences, perhaps corrected by hand, as `zgul tag` writes them."""
    texts = []
    for number, sentence in enumerate(body.sentences, start=1):
        columns = {"pos": "upos", "ner": "ner"}
        values = {task: [getattr(sentence, column + end) for end in ENDINGS] for task, column in columns.items()}
        layers = {task: Layer(t, p or [1.0] * len(t), w) for task, (t, p, w) in values.items() if t is not None}
        places = (sentence.text, sentence.words, sentence.offsets, layers, sentence.language, sentence.start)
        with blame(f"sentences.{number - 1}"):
            tagged = TaggedSentence(*places, opens="document" if number == 1 else None)
            texts.append(tagged.to_text(format, number))
    return "".join(texts)


@router.get("/v1/languages", **_described("/v1/languages"))
def languages(
    response: Response,
    q: Annotated[str, Query(description="A code or any name, or a part of it.", max_length=100)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> s.LanguageList:
    """Search languages, best first. Without a query these are the paper's."""
    response.headers.update(KEPT)
    return s.LanguageList(languages=[s.LanguageData.of(language) for language in search(q, limit)])


@router.get("/v1/languages/{code}", **_described("/v1/languages/{code}"))
def language(code: Annotated[str, PathParameter(max_length=100)], response: Response) -> s.LanguageDetails:
    """Show who a language is, which taggers serve it, and what accuracy to expect."""
    try:
        found = find(code)
        feature_source(found.iso3)
    except ZgulError as error:
        raise Problem(404, str(error), "code") from error
    response.headers.update(KEPT)
    return s.LanguageDetails(**details(found.iso3))


@router.get("/v1/examples", **_described("/v1/examples"))
def examples(response: Response) -> s.ExampleList:
    """Sentences in languages that no tagger was trained on."""
    response.headers.update(KEPT)
    return s.ExampleList.model_validate(
        {
            "examples": [
                one | {"name": data.name, "direction": data.direction}
                for one in SENTENCES
                for data in [s.LanguageData.of(find(one["lang"]))]
            ]
        }
    )


@router.get("/v1/config", **_described("/v1/config"))
def configuration(request: Request, response: Response) -> s.ServiceInfo:
    """The version, the limits, and what the tags mean."""
    config = _service(request).config
    tags = {task: {tag: meaning for tag, (meaning, _) in LEGEND[task].items()} for task in ("pos", "ner")}
    return s.ServiceInfo.model_validate(
        {"version": __version__, "limits": config.limits, "key_needed": bool(config.api_key), "tags": tags}
    )


@router.get("/healthz", **_described("/healthz"))
def health() -> s.Health:
    """Whether the service is up."""
    return s.Health(status="ok")


@router.get("/metrics", response_class=PlainTextResponse, **_described("/metrics"))
async def metrics(request: Request) -> Response:
    """Counts and times for Prometheus."""
    counted: Metrics = request.app.state.metrics
    counted.waiting.set(_service(request).batcher.waiting)
    return PlainTextResponse(counted.text())


class PageFiles(StaticFiles):
    """The files of the page, which the browser asks for again each time, and gets if they changed."""

    def file_response(self, *arguments: Any, **named: Any) -> Response:
        response = super().file_response(*arguments, **named)
        response.headers.update(FRESH)
        return response


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: TextService = app.state.service
    workers = [asyncio.create_task(service.batcher.run()) for _ in range(service.config.workers)]
    yield
    for worker in workers:
        worker.cancel()
    service.pool.shutdown(wait=False, cancel_futures=True)


def create_app(config: ServeConfig, page: Path = PAGE) -> FastAPI:
    """The service as an ASGI app, with the page in this folder."""
    about = {"title": "zgul", "version": __version__, "description": "Tags text in languages that no model has seen."}
    app = FastAPI(**about, docs_url=None, redoc_url=None, lifespan=_lifespan)  # type: ignore[arg-type]
    app.state.metrics = Metrics()
    app.state.service = TextService(config, app.state.metrics)
    app.include_router(router)
    app.mount("/static", PageFiles(directory=page, check_dir=False))
    app.add_api_route("/", lambda: FileResponse(page / "index.html", headers=FRESH), include_in_schema=False)
    app.add_exception_handler(Problem, answer_problem)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, answer_http)
    app.add_middleware(Gate, config=config)
    if config.cors:
        allowed: dict[str, Any] = {"allow_methods": ["GET", "POST"], "allow_headers": ["Authorization", "Content-Type"]}
        app.add_middleware(CORSMiddleware, allow_origins=[config.cors], **allowed)
    app.add_middleware(Watch, metrics=app.state.metrics)  # the last one that is added stands first
    return app
