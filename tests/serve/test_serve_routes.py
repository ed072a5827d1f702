"""All routes but tagging: files, output, languages, examples, the page."""

import gzip
import io
import json
import lzma
import re
import zipfile

import pytest

import zgul
from running_service import Client
from zgul.languages import GROUPS, SOURCES
from zgul.serve.app import API, PAGE
from zgul.tagging.serving import (
    adapted_names,
    describe,
    expected_accuracy,
    learnt_from,
    serving,
    shipped_config,
    shipped_names,
)

WORD_XML = """<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>
<w:p><w:r><w:t>Hetta er</w:t></w:r><w:r><w:tab/><w:t xml:space="preserve"> ein </w:t></w:r>
<w:r><w:t>roynd.</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Ein kassi.</w:t><w:br/><w:t>Ein til.</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
<w:sdt><w:sdtContent><w:p><w:r><w:t>Ein </w:t></w:r><w:ins><w:r><w:t>viðbót.</w:t></w:r></w:ins></w:p>
</w:sdtContent></w:sdt>
<w:p><w:del><w:r><w:delText>Strikað.</w:delText></w:r></w:del></w:p></w:body></w:document>"""
DOCX_TEXT = "Hetta er\t ein roynd.\n\nEin kassi.\nEin til.\n\nEin viðbót."
OPEN_XML = """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text>
<text:tracked-changes><text:p>Strikað.</text:p></text:tracked-changes>
<text:h>Heiti</text:h><text:p>Hetta <text:span>er<text:s/>ein</text:span> roynd.<text:line-break/>Ein til.</text:p>
</office:text></office:body></office:document-content>"""
CONLLU = "# text = Hetta er\n1\tHetta\t_\tPRON\t_\t_\t_\t_\t_\t_\n2\ter\t_\tAUX\t_\t_\t_\t_\t_\tNER=O\n\n"


def packed(member: str, xml: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, xml)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.txt", b"Hetta er\nein roynd.\n", "Hetta er\nein roynd.\n"),
        ("a.txt.gz", gzip.compress(b"Hetta er", mtime=0), "Hetta er"),
        ("a.txt.xz", lzma.compress(b"Hetta er"), "Hetta er"),
        ("a.txt", "\ufeffHetta".encode(), "Hetta"),
        ("bræv.docx", packed("word/document.xml", WORD_XML), DOCX_TEXT),
        ("a.odt", packed("content.xml", OPEN_XML), "Heiti\n\nHetta er ein roynd.\nEin til."),
        ("a.txt", b"", ""),
    ],
)
def test_files_are_read_to_text(client: Client, name: str, content: bytes, text: str) -> None:
    assert client.upload(name, content).data == {"text": text, "warnings": []}


@pytest.mark.parametrize(
    ("encoding", "word", "warning"), [("cp1252", "Føroyar", "Latin-1"), ("utf-16", "Føroyar", "UTF-16")]
)
def test_other_encodings_are_read_with_a_warning(client: Client, encoding: str, word: str, warning: str) -> None:
    found = client.upload("a.txt", f"Hetta eru {word}\n".encode(encoding)).data
    assert found["text"].strip("\ufeff") == f"Hetta eru {word}\n" and warning in found["warnings"][0]


def test_files_that_are_cut_into_words(client: Client) -> None:
    found = client.upload("a.conllu", CONLLU.encode()).data
    tags = {"pos": ["PRON", "AUX"]}
    assert found == {"conllu": True, "sentences": [{"words": ["Hetta", "er"], "tags": tags}], "warnings": []}
    assert client.upload("a.txt", CONLLU.encode()).data == found  # seen from its content
    found = client.upload("a.tsv", b"Hetta\tPRON\ner\tAUX\n\n").data
    assert found["sentences"] == [{"words": ["Hetta", "er"], "tags": None}]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.pdf", b"%PDF-1.7 ...", "PDF"),
        ("a.docx", b"PK\x03\x04 and nothing", "damaged"),
        ("a.docx", packed("other.xml", "<a/>"), "no docx or odt"),
        ("a.docx", packed("word/document.xml", "<a>"), "damaged"),
        ("a.odt", packed("content.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'), "entities"),
        ("a.zip", packed("a", "b"), "zip"),
        ("a.gz", b"not packed", "damaged"),
        ("a.txt.xz", lzma.compress(b"Hetta er")[:-9], "damaged"),
        ("a.conllu", b"1\tHetta\n\n", "columns"),
        ("a.txt", b"\x00\x01\x02\xff\xfe", "not"),
        ("a.txt", b"Hetta\0er", "not a text"),
    ],
)
def test_files_that_cannot_be_read(client: Client, name: str, content: bytes, problem: str) -> None:
    answer = client.upload(f"/home/someone/{name}", content)
    assert answer.status == 422 and answer.error["field"] == "file"
    assert problem in answer.error["message"] and "/" not in answer.error["message"].replace("utf-8", "")


def test_a_form_without_its_file(client: Client) -> None:
    assert client.upload("a.txt", b"Hetta", field="other").status == 422
    form = "multipart/form-data"
    assert client.post("/v1/read", b"nothing", content_type=form).error["code"] == "bad_request"
    assert client.post("/v1/read", b"nothing", content_type=f"{form}; boundary=x").status == 400
    field = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\ntext\r\n--x--\r\n'
    assert client.post("/v1/read", field, content_type=f"{form}; boundary=x").status == 400


@pytest.mark.parametrize("form", ["conllu", "tsv", "json"])
@pytest.mark.parametrize("weights", [False, True])
def test_sentences_are_written_as_the_library_writes_them(client: Client, form: str, weights: bool) -> None:
    text = "Grace odhi Kisumu, bang'e odok Nairobi. Onego obi.\n\nGrace odok."  # two paragraphs
    sentences = client.tag(text, "luo", task="both", weights=weights).data["texts"][0]["sentences"]
    answer = client.post(f"/v1/conllu?format={form}", {"sentences": sentences})
    assert answer.status == 200 and answer.headers["content-type"] == "text/plain; charset=utf-8"
    if form == "json":
        assert [json.loads(line) for line in answer.body.decode().splitlines()] == sentences
        return
    document = zgul.load("luo", "both", weights=weights).tag(text)
    expected = "".join(s.to_text(form, n) for n, s in enumerate(document, start=1))
    rounded = re.compile(r"(?<=:)0\.\d\d")  # of weights, which come in four digits
    assert rounded.sub("w", answer.body.decode()) == rounded.sub("w", expected)
    assert bool(rounded.search(expected)) == weights


def test_tags_that_were_corrected_are_written(client: Client) -> None:
    (sentence,) = client.tag("Hetta er.").data["texts"][0]["sentences"]
    del sentence["upos_probabilities"]
    sentence["upos"] = ["X", "SYM", "PUNCT"]
    written = client.post("/v1/conllu?format=tsv", {"sentences": [sentence]}).body.decode()
    assert written == "Hetta\tX\ner\tSYM\n.\tPUNCT\n\n"
    wrongs = ({"upos": ["X"]}, {"upos": ["A", "B", "C"]}, {"words": ["a b", "c", "d"]}, {"ner": ["", "O", "O"]})
    for wrong in (*wrongs, {"offsets": [[0, 5], [2**63, 8], [8, 9]]}, {"start": -1}):
        answer = client.post("/v1/conllu", {"sentences": [sentence | wrong]})
        assert answer.status == 422 and answer.error["field"].startswith("sentences.0"), wrong


def test_languages_are_found_by_any_name(client: Client) -> None:
    def found(query: str) -> list[str]:
        return [one["code"] for one in client.get(f"/v1/languages?q={query}&limit=5").data["languages"]]

    assert found("fo")[0] == found("fao")[0] == found("Faroese")[0] == found("f%C3%B8roysk")[0] == "fo"
    assert "fo" in found("far") and found("Feroese")[0] == "fo"
    assert found("german")[0] == "de" and "gsw" in found("swiss")
    assert found("qqqqqqqqqq") == []
    arabic = client.get("/v1/languages?q=ar&limit=1").data["languages"][0]
    assert arabic["direction"] == "rtl" and arabic["autonym"] and "Arab" in arabic["scripts"]
    ours = [one["code"] for one in client.get("/v1/languages?limit=100").data["languages"]]
    assert set(ours) == {*SOURCES, *(code for group in GROUPS.values() for code in group.targets)}
    assert len(client.get("/v1/languages").data["languages"]) == 20


def test_a_language(client: Client) -> None:
    found = client.get("/v1/languages/f%C3%B8royskt").data
    assert found["language"]["code"] == "fo" and found["language"]["territory"] == "Faroe Islands"
    assert found["group"] == "germanic" and found["most_related"] == "is" and found["default_task"] == "pos"
    assert [one["code"] for one in found["relatives"]][:3] == ["is", "de", "en"] and len(found["relatives"]) == 11
    assert [one["name"] for one in found["taggers"]] == [serving("fo", task).name for task in ("pos", "ner")]
    learnt = [list(one.learnt_from) for one in describe("fo").taggers]
    assert [one["learnt_from"] for one in found["taggers"]] == learnt and learnt[0][:3] == ["en", "is", "de"]
    example = API["/v1/languages/{code}"]["answer"]["application/json"]["example"]
    assert [one["learnt_from"] for one in example["taggers"]] == learnt
    assert found["taggers"][0]["expected"]["f1"] > 50 and found["taggers"][1]["expected"] is None
    unrelated = client.get("/v1/languages/fi").data
    assert unrelated["group"] is None and unrelated["taggers"][0]["warning"]
    missing = client.get("/v1/languages/nosuchlanguage")
    assert missing.status == 404 and "nosuchlanguage" in missing.error["message"]


@pytest.mark.parametrize("name", adapted_names())
def test_a_language_with_an_adapted_tagger_has_the_zero_shot_one_beside_it(client: Client, name: str) -> None:
    code, task = name.rsplit("-", 1)
    by_task = {one["task"]: one for one in client.get(f"/v1/languages/{code}").data["taggers"]}
    assert by_task[task]["name"] == name and by_task[task]["base"] in shipped_names()
    for kind, adapted in (("expected", True), ("zero_shot", False)):
        f1 = expected_accuracy(code, task, adapted=adapted)
        assert by_task[task][kind] == (f1 and {"f1": f1.f1, "note": f1.note})


def test_examples_are_in_languages_that_no_tagger_learnt_from(client: Client) -> None:
    examples = client.get("/v1/examples").data["examples"]
    configs = [shipped_config(name) for name in shipped_names()]
    learnt = {code for one in configs for code in learnt_from(one["sources"], one["about"])}
    assert len({one["lang"] for one in examples}) >= 12 and not {one["lang"] for one in examples} & learnt
    assert {"fo", "gsw", "got", "hsb", "luo", "ha", "ig", "lg", "rw", "pcm", "as", "bho", "ti"} <= {
        one["lang"] for one in examples
    }
    assert "rtl" in {one["direction"] for one in examples} and all(one["name"] for one in examples)
    texts = [{"text": one["text"], "lang": one["lang"]} for one in examples]
    tagged = client.post("/v1/tag", {"texts": texts}).data["texts"]
    assert [len(one["sentences"]) for one in tagged] == [1] * len(examples)
    for one, example in zip(tagged, examples, strict=True):
        assert example["task"] == "pos" or one["sentences"][0]["entities"], f"{example['name']} shows no name"
    assert not [one["warnings"] for one in tagged if one["warnings"]]


def test_config_and_health(client: Client) -> None:
    found = client.get("/v1/config").data
    assert found["version"] == zgul.__version__ and found["key_needed"] is False
    sizes = {"bytes": 2_000_000, "words": 20_000, "texts": 1000, "seconds": 60}
    assert found["limits"] == sizes | {"explain_words": 100, "em_steps": 20}
    assert found["tags"]["pos"]["NOUN"] == "noun" and len(found["tags"]["pos"]) == 17 and "PER" in found["tags"]["ner"]
    assert client.get("/healthz").data == {"status": "ok"}


def test_metrics_count_what_was_done(client: Client) -> None:
    def read(name: str) -> float:
        lines = client.get("/metrics").body.decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    answers, words = 'zgul_requests_total{route="/v1/tag",status="200"}', "zgul_words_total"
    before = read(answers), read(words), read("zgul_batch_words_sum")
    client.tag("Hetta er ein roynd.")
    client.get("/no/such/path")
    assert (read(answers), read(words), read("zgul_batch_words_sum")) == (before[0] + 1, before[1] + 5, before[2] + 5)
    text = client.get("/metrics").body.decode()
    assert 'route="other",status="404"' in text and "zgul_waiting_words 0.0" in text and "no/such" not in text
    assert "zgul_request_seconds_bucket" in text


def test_the_page(client: Client) -> None:
    kinds = {"/": "text/html", "/static/main.js": "text/javascript", "/static/style.css": "text/css"}
    for path, kind in kinds.items():
        answer = client.get(path)
        assert answer.status == 200 and answer.headers["content-type"].startswith(kind), path
        assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.skipif(not (PAGE / "index.html").is_file(), reason="the page is not there yet")
def test_the_page_needs_nothing_from_elsewhere() -> None:
    for file in [*PAGE.glob("*.html"), *PAGE.glob("*.css")]:
        assert "http://" not in file.read_text("utf-8") and "//cdn" not in file.read_text("utf-8"), file


@pytest.mark.parametrize(
    "path", ["../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "%2e%2e%2fsecret.txt", "//etc/passwd"]
)
def test_no_file_outside_the_page_is_served(client: Client, path: str) -> None:
    answer = client.get(f"/static/{path}")
    assert answer.status == 404 and b"secret" not in answer.body


def test_openapi_has_an_example_of_every_answer(client: Client) -> None:
    paths = client.get("/openapi.json").data["paths"]
    assert set(paths) == set(API) - {"error", "errors"}
    for path, methods in paths.items():
        for about in methods.values():
            (content,) = about["responses"]["200"]["content"].values()
            assert content["example"] and content["schema"], path
            assert about["description"] and "422" in about["responses"]


@pytest.mark.parametrize("path", ["/v1/tag", "/v1/explain", "/v1/conllu"])
def test_the_examples_of_openapi_are_true(client: Client, path: str) -> None:
    request = API[path]["extra"]["requestBody"]["content"]["application/json"]["example"]
    (content,) = API[path]["answer"].values()
    answer = client.post(path, request)
    assert answer.status == 200
    if path == "/v1/conllu":
        assert answer.body.decode() == content["example"]
        return
    assert shape(answer.data) == shape(content["example"])


def shape(value: object) -> object:
    """The names of all fields; of a list that of its first entry."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else type(value).__name__


def test_an_empty_sentence_is_written(client: Client) -> None:
    empty = {"text": "", "language": "", "words": [], "offsets": []}
    answer = client.post("/v1/conllu?format=json", {"sentences": [empty]})
    assert answer.status == 200 and json.loads(answer.body)["text"] == ""
