"""The bodies of requests, as they are checked and as OpenAPI describes them. ``api.json`` describes the answers."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from zgul.serve.serve_config import MAX_EM_RATE, MAX_EM_STEPS

NAME = "Code or name of a language, such as fo or Faroese, or auto to guess it."
WORD_LANGUAGES = "For each word its own language, or null."
TAGGED = "What zgul tag --format json writes for a sentence."

Task = Literal["pos", "ner"]
Text = Annotated[str, AfterValidator(lambda text: text.encode("utf-8").decode("utf-8"))]  # half a character is refused
Word = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f-\x9f]+$", max_length=1000)]
Name = Annotated[str, Field(description=NAME, min_length=1, max_length=100)]
Tag = Annotated[str, StringConstraints(pattern=r"^([A-Z]+|[BI]-[^\s\x00-\x1f]+)$", max_length=100)]
WordLanguages = Annotated[list[Name | None] | None, Field(description=WORD_LANGUAGES)]
Steps = Annotated[int, Field(ge=0, le=MAX_EM_STEPS, description="Steps of entropy minimisation (EM).")]
Rate = Annotated[float, Field(ge=0, le=MAX_EM_RATE, allow_inf_nan=False, description="Learning rate of EM.")]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Adapted = Annotated[bool, Field(description="Use what the tagger learnt from raw text of the language itself.")]
Place = Annotated[int, Field(ge=0, le=2**53)]  # in a text
Shares = list[dict[str, Share]] | None


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


def check_lengths(model: BaseModel, words: list[str], *names: str) -> None:
    """Raise if one of these fields is given and has another length than the words."""
    for name in names:
        values = getattr(model, name)
        if values is not None and len(values) != len(words):
            raise ValueError(f"{name} has {len(values)} entries, but there are {len(words)} words")


class TextToTag(_Request):
    """Running text, or the words of one sentence."""

    text: Text | None = Field(None, description="Running text of any length.")
    words: list[Word] | None = Field(None, min_length=1, description="The words of one sentence, instead of text.")
    lang: Name
    word_langs: WordLanguages = None

    @model_validator(mode="after")
    def check(self) -> Self:
        if (self.text is None) == (self.words is None):
            raise ValueError("give either text or words")
        check_lengths(self, self.words or [], "word_langs")
        return self


class TagRequest(_Request):
    texts: list[TextToTag] = Field(min_length=1)
    task: Literal["pos", "ner", "both"] | None = Field(None, description="null: what the language's group is made for.")
    em: bool | None = Field(None, description="Switch EM on or off; null: as the tagger was tuned.")
    em_steps: Steps | None = None
    em_lr: Rate | None = None
    adapted: Adapted = True
    weights: bool = Field(False, description="Add the share of each source language for each word.")

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.em is False and (self.em_steps, self.em_lr) != (None, None):
            raise ValueError("em is false, so em_steps and em_lr have no meaning; leave them out")
        return self

    @property
    def choices(self) -> dict[str, Any]:
        """For `zgul.load`."""
        return {name: getattr(self, name) for name in ("task", "adapted", "em", "em_steps", "em_lr", "weights")}


class ExplainRequest(_Request):
    words: list[Word] = Field(min_length=1)
    word_langs: WordLanguages = None
    lang: Name
    task: Task
    em_steps: Steps
    em_lr: Rate | None = Field(None, description="null: the tuned rate, or 10 if EM was tuned to no steps.")
    adapted: Adapted = True

    @model_validator(mode="after")
    def check(self) -> Self:
        check_lengths(self, self.words or [], "word_langs")
        return self


class SentenceData(BaseModel):
    __doc__ = TAGGED
    text: Text
    language: Text = Field(max_length=100)
    start: Place = Field(0, description="Where the sentence begins in its text.")
    words: list[Word]
    offsets: list[tuple[Place, Place]] = Field(description="Begin and end of each word in the text that was given.")
    opens: Literal["document", "paragraph"] | None = Field(None, description="What begins with it, if known.")
    upos: list[Tag] | None = None
    upos_probabilities: list[Share] | None = None
    upos_weights: Shares = None
    ner: list[Tag] | None = None
    ner_probabilities: list[Share] | None = None
    ner_weights: Shares = None
    entities: list[dict[str, Any]] | None = Field(None, description="Follows from ner.")

    @model_validator(mode="after")
    def check(self) -> Self:
        names = [f"{column}{rest}" for column in ("upos", "ner") for rest in ("", "_probabilities", "_weights")]
        check_lengths(self, self.words, "offsets", *names)
        return self


class SentencesToWrite(_Request):
    sentences: list[SentenceData]
