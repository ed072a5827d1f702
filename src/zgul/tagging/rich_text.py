"""The plain text of documents with layout: Word (docx), OpenDocument (odt) and HTML, with the standard library alone.

Paragraphs are separated by blank lines. Deleted text, footnotes, comments, scripts and styles are left out.
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import IO
from xml.etree import ElementTree

from zgul.errors import ZgulError

MAX_DOCUMENT = 1 << 26  # bytes of a document, also when it is unpacked
OFFICE = b"PK\x03\x04"  # how docx and odt begin, and every other zip file
DAMAGED_DOCUMENT = (zipfile.BadZipFile, ElementTree.ParseError, KeyError, RuntimeError, NotImplementedError)

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
STRICT = b"http://purl.oclc.org/ooxml/wordprocessingml/main"  # the same elements, as "Strict Open XML" names them
OPEN = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_SIGNS = {f"{WORD}tab": "\t", f"{WORD}br": "\n", f"{WORD}cr": "\n", f"{WORD}noBreakHyphen": "\u2011"}
_SIGNS |= {f"{OPEN}tab": "\t", f"{OPEN}line-break": "\n", f"{OPEN}s": " "}
_PARAGRAPHS = {f"{WORD}p", f"{OPEN}p", f"{OPEN}h"}
# what was deleted, footnotes, comments, the description of a picture, and the second copy of a text box
_LEFT_OUT = {"tracked-changes", "note", "annotation", "title", "desc", "Fallback", "ruby-text"}

_HTML = re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]{1,40})", re.IGNORECASE)
_INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|ruby|s|samp|small|span|strike|"
    "strong|sub|sup|time|tt|u|var|wbr"
)
_HIDDEN = {"head", "noscript", "script", "style", "template", "textarea"}


def looks_like_html(beginning: bytes) -> bool:
    return _HTML.match(beginning) is not None


def read_limited(stream: IO[bytes]) -> bytes:
    """The whole of a stream. More than `MAX_DOCUMENT` is refused."""
    content = stream.read(MAX_DOCUMENT + 1)
    if len(content) > MAX_DOCUMENT:
        raise ZgulError(f"The document has more than {MAX_DOCUMENT:,} bytes. Save it as plain text.")
    return content


def office_text(content: bytes, read: Callable[[IO[bytes]], bytes] = read_limited) -> str:
    """The text of a docx or odt file. ``read`` unpacks a part of it. Other files raise one of `DAMAGED_DOCUMENT`."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        held = archive.namelist()
        member = next((name for name in ("word/document.xml", "content.xml") if name in held), None)
        table = "mimetype" in held and b"opendocument.text" not in read(archive.open("mimetype"))
        if member is None or table:
            raise ZgulError("This zip file is no docx or odt document. Save what it holds as plain text.")
        xml = read(archive.open(member)).replace(STRICT, WORD[1:-1].encode())
    if b"<!DOCTYPE" in xml or b"<!ENTITY" in xml:
        raise ZgulError("The document defines XML entities, which no word processor does. Save it again.")
    return _paragraphs("".join(_office_parts(ElementTree.fromstring(xml))))


def _office_parts(element: ElementTree.Element) -> Iterator[str]:
    """The pieces of text below an element. Elements of other kinds hold numbers, such as the place of a picture."""
    border = "\n\n" if element.tag in _PARAGRAPHS else ""
    yield border or _SIGNS.get(element.tag, "")
    own = element.tag == f"{WORD}t" or element.tag.startswith(OPEN)
    yield (element.text or "") if own else ""
    for child in element:
        if child.tag.rpartition("}")[2] not in _LEFT_OUT:
            yield from _office_parts(child)
        yield (child.tail or "") if own else ""
    yield border


def html_text(content: bytes) -> str:
    """The text of an HTML page, in UTF-8, in the encoding that it names, or in Latin-1."""
    named = _CHARSET.search(content[:4096])
    for encoding in ("utf-8-sig", named[1].decode() if named else "cp1252", "cp1252"):
        try:
            text = content.decode(encoding)
            break
        except (UnicodeDecodeError, LookupError):
            continue
    else:
        text = content.decode("utf-8", "replace")
    page = _Page()
    page.feed(text)
    page.close()
    return _paragraphs("".join(page.parts))


class _Page(HTMLParser):
    """Collects the text of a page. Every element that is not part of a line begins and ends a paragraph."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden = ""  # the element whose text is left out

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "body" or not self.hidden:
            self.hidden = tag if tag in _HIDDEN else ""
            self._border(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == self.hidden:
            self.hidden = ""
        if tag != "br":
            self._border(tag)

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(re.sub(r"[ \t\r\n]+", " ", data))

    def _border(self, tag: str) -> None:
        if not _INLINE.fullmatch(tag):
            self.parts.append("\n" if tag == "br" else "\n\n")


def _paragraphs(text: str) -> str:
    """Paragraphs with one blank line between them."""
    return "\n\n".join(filter(None, (part.strip() for part in re.split(r"\n\s*\n", text))))
