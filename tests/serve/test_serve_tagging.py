"""/v1/tag and /v1/explain: the same tags as the library gives, for all kinds of text."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import zgul
from running_service import Client
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import EMConfig
from zgul.serve.app import SENTENCES
from zgul.tagging.loading import load_shipped
from zgul.tagging.serving import adapted_names, serving

TEXT = "Í morgun fór báturin út at fiska. Veðrið var ringt, men tey komu aftur.\n\nHetta er ein roynd."
UNKNOWN_SCRIPT = "ߒ ߓߘߊ߫ ߕߊ߯ ߓߊ߬ߡߊ߬ߞߐ߫ ߟߐ߯ߝߍ߫ ߞߎ߲߬"  # N'Ko


@pytest.mark.parametrize("choices", [{}, {"task": "both"}, {"em_steps": 2, "em_lr": 10.0}, {"em": False}])
def test_the_answer_is_what_the_library_gives(client: Client, choices: dict) -> None:  # type: ignore[type-arg]
    answer = client.tag(TEXT, "fo", weights=True, **choices)
    assert answer.status == 200 and answer.headers["content-type"] == "application/json"
    (found,) = answer.data["texts"]
    tagger = zgul.load("fo", weights=True, **choices)
    expected = tagger.tag(TEXT).to_dict()["sentences"]
    assert len(found["sentences"]) == 3
    for mine, own in zip(found["sentences"], expected, strict=True):
        assert mine.keys() == own.keys()
        for name, value in own.items():
            if name.endswith("_probabilities"):
                assert mine[name] == pytest.approx(value, abs=2e-4)
            elif name.endswith("_weights"):
                assert [list(word) for word in mine[name]] == [list(word) for word in value]
            else:
                assert name == "entities" or mine[name] == value, name
    assert found["language"] == {"code": "fo", "name": "Faroese", "guessed": None}
    assert [one["task"] for one in found["taggers"]] == list(tagger.taggers)
    assert found["taggers"][0]["about"] == tagger.describe(found["taggers"][0]["task"])
    assert found["warnings"] == []


def test_requests_of_many_clients_are_tagged_together_and_stay_apart(client: Client) -> None:
    some = SENTENCES[:10]
    with ThreadPoolExecutor(len(some)) as pool:
        jobs = [pool.submit(client.tag, one["text"], one["lang"], task=one["task"]) for one in some]
        answers = [job.result() for job in jobs]
    assert {answer.status for answer in answers} == {200}
    for one, answer in zip(some, answers, strict=True):
        own = zgul.load(one["lang"], one["task"]).tag(one["text"])
        made = [
            tag for s in answer.data["texts"][0]["sentences"] for tag in s["upos" if one["task"] == "pos" else "ner"]
        ]
        assert made == own.tags, one["lang"]


def test_several_languages_in_one_request(client: Client) -> None:
    texts = [{"text": TEXT, "lang": "Faroese"}, {"text": "Dźensa je rjany dźeń.", "lang": "hsb"}]
    found = client.post("/v1/tag", {"texts": texts + [{"text": " \n ", "lang": "fo"}]}).data["texts"]
    assert [one["taggers"][0]["name"] for one in found] == [serving(code, "pos").name for code in ("fo", "hsb", "fo")]
    assert [len(one["sentences"]) for one in found] == [3, 1, 0]
    assert found[1]["sentences"][0]["upos"] == zgul.load("hsb").tag(texts[1]["text"]).tags


def test_an_adapted_tagger_can_be_left_out(client: Client) -> None:
    text, made = "Dźensa je rjany dźeń.", {}
    for adapted in (True, False):
        request = {"texts": [{"text": text, "lang": "hsb"}], "adapted": adapted}
        (made[adapted],) = client.post("/v1/tag", request).data["texts"]
        (served,) = made[adapted]["taggers"]
        assert served["name"] == serving("hsb", "pos", adapted=adapted).name
    own = zgul.load("hsb", adapted=False).tag(text)[0]
    assert made[False]["sentences"][0]["upos_probabilities"] == pytest.approx(own.probabilities, abs=2e-4)


@pytest.mark.parametrize("name", adapted_names()[:1])
def test_the_zero_shot_tagger_can_be_asked_for(client: Client, name: str) -> None:
    code, task = name.rsplit("-", 1)
    words = ["Hetta", "er", "ein", "roynd", "."]
    for adapted in (True, False):
        request = {"texts": [{"words": words, "lang": code}], "task": task, "adapted": adapted}
        (found,) = client.post("/v1/tag", request).data["texts"]
        (about,) = found["taggers"]
        own = zgul.load(code, task, adapted=adapted).tag(words)[0].to_dict()
        column = "upos" if task == "pos" else task
        assert found["sentences"][0][f"{column}_probabilities"] == pytest.approx(
            own[f"{column}_probabilities"], abs=2e-4
        )
        assert about["name"] == (name if adapted else serving(code, task, adapted=False).name)
        assert (about["base"] is not None) == adapted == ("adapted to" in about["about"])
        request = {"words": words, "lang": code, "task": task, "em_steps": 0, "adapted": adapted}
        assert (code in client.post("/v1/explain", request).data["sources"]) == adapted


def test_words_with_their_own_languages(client: Client) -> None:
    words = ["Hetta", "er", "the", "best"]
    request = {"texts": [{"words": words, "lang": "fo", "word_langs": [None, None, "en", "English"]}], "weights": True}
    (sentence,) = client.post("/v1/tag", request).data["texts"][0]["sentences"]
    own = Sentence(words, word_languages=["", "", "en", "en"])
    expected = zgul.load("fo", weights=True).tag(own)[0].to_dict()
    assert sentence["upos"] == expected["upos"]
    assert sentence["upos_weights"] == [pytest.approx(word, abs=2e-4) for word in expected["upos_weights"]]
    del request["texts"][0]["word_langs"]  # type: ignore[attr-defined]
    (other,) = client.post("/v1/tag", request).data["texts"][0]["sentences"]
    assert other["upos_weights"] != sentence["upos_weights"]


def test_the_language_is_guessed(client: Client) -> None:
    found = client.tag(TEXT, "auto").data["texts"][0]
    assert found["language"]["code"] == "fo" and found["language"]["guessed"] > 0.8 and not found["warnings"]
    doubtful = client.tag("Ja.", "auto").data["texts"][0]
    assert doubtful["language"]["guessed"] < 0.8 and "sure" in doubtful["warnings"][0]
    refused = client.tag("12345 !", "auto")
    assert refused.status == 422 and refused.error["field"] == "texts.0.lang" and "--" not in refused.error["message"]


def test_warnings_come_with_the_text_they_belong_to(client: Client) -> None:
    texts = [{"text": "Tämä on koe.", "lang": "fi"}, {"text": TEXT, "lang": "fo"}, {"text": TEXT, "lang": "qpm"}]
    texts += [{"text": "eitt tvey\nHetta er\nEin roynd\nLítil bók", "lang": "fo"}]
    for _ in range(2):  # each time, and not once a process
        found = client.post("/v1/tag", {"texts": texts, "task": "pos"}).data["texts"]
        assert ["related" in " ".join(one["warnings"]) for one in found] == [True, False, False, False]
        assert found[1]["warnings"] == [] and "Bulgarian" in found[2]["warnings"][0]
        assert "each is a sentence" in found[3]["warnings"][0] and len(found[3]["sentences"]) == 4
    tuned = client.tag(TEXT, "fo", em=True).data["texts"][0]
    assert tuned["warnings"] == ["EM was tuned to no steps for Faroese. Give em_steps."]
    mixed = client.tag(" ".join([TEXT] * 30) + " " + UNKNOWN_SCRIPT + ".", "fo").data["texts"][0]
    assert "does not know the script" in mixed["warnings"][0]


def test_an_unknown_script_is_an_error_of_its_request_alone(client: Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = [UNKNOWN_SCRIPT if n % 2 else TEXT for n in range(8)]
        answers = list(pool.map(client.tag, texts))
    assert [answer.status for answer in answers] == [200, 422] * 4
    assert answers[1].error["field"] == "texts.0.text" and "script" in answers[1].error["message"]


@pytest.mark.parametrize(("language", "task"), [("fo", "pos"), ("luo", "ner"), ("fi", "pos")])
@pytest.mark.parametrize("steps", [0, 3])
def test_the_explanation_agrees_with_the_tagger_at_the_first_and_the_last_step(
    client: Client, language: str, task: str, steps: int
) -> None:
    words = ["Otieno", "nodhi", "Nairobi", "kod", "Achieng", "."]
    request = {"words": words, "lang": language, "task": task, "em_steps": steps, "em_lr": 10.0}
    found = client.post("/v1/explain", request).data
    name = zgul.load(language, task).served[task].name
    tagger = load_shipped(name)
    sentence = Sentence(words, language=language)
    assert found["labels"] == list(tagger.labels) and found["sources"] == tagger.bank_languages
    assert len(found["steps"]) == steps + 1
    for t in (0, steps):
        em = EMConfig(steps=t, lr=10.0)
        (own,) = tagger.predict([sentence], strategy="em", em=em, weights=True)
        step = found["steps"][t]
        assert step["tags"] == own.tags
        weights = np.array(step["weights"])  # [words, layers, views, sources]
        assert weights.shape == (len(words), found["layers"], len(found["views"]), len(found["sources"]))
        assert own.weights is not None and np.abs(weights.mean(axis=1) - own.weights).max() < 2e-4
        p = np.array(step["probabilities"])
        assert p.sum(axis=1) == pytest.approx(np.ones(len(words)), abs=2e-3)
        chosen = [row[found["labels"].index(tag)] for row, tag in zip(p, own.tags, strict=True)]
        assert chosen == pytest.approx(list(own.probabilities), abs=2e-4)
    (plain,) = tagger.predict([sentence], strategy="plain")
    assert found["steps"][0]["tags"] == plain.tags
    falls = [step["entropy"] for step in found["steps"]]
    assert all(after < before for before, after in itertools.pairwise(falls)) and len(falls) == steps + 1


def test_the_explanation_takes_the_tuned_rate_and_languages_of_words(client: Client) -> None:
    request = {"words": ["অসম", "এখন", "ৰাজ্য", "।"], "lang": "as", "task": "ner", "em_steps": 1}
    found = client.post("/v1/explain", request).data
    assert found["em_lr"] == 30 and found["language"]["code"] == "as" and found["warnings"] == []
    other = {"words": ["Hetta", "er", "ein", "roynd"], "lang": "fo", "task": "pos", "em_steps": 1}
    assert client.post("/v1/explain", other).data["em_lr"] == 10  # tuned to no steps
    other = client.post("/v1/explain", request | {"word_langs": [None, "en", None, None]}).data
    assert other["steps"][0]["weights"][1] != found["steps"][0]["weights"][1]
    assert "fi" not in found["warnings"] and client.post("/v1/explain", request | {"lang": "fi"}).data["warnings"]


def test_numbers_stay_finite_with_the_largest_rate(client: Client) -> None:
    assert client.tag(TEXT, "gsw", em_steps=4, em_lr=1000.0, weights=True).status == 200
    request = {"words": ["Der", "Hund"], "lang": "gsw", "task": "pos", "em_steps": 4, "em_lr": 1000.0}
    assert client.post("/v1/explain", request).status == 200
