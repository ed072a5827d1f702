"""The plain text of documents with layout: Word (docx), OpenDocument (odt) and HTML.

Paragraphs are separated by blank lines. Deleted text, footnotes, comments, scripts and styles are left out.

The time that a document takes is in proportion to its size, whoever made it; that of `html.parser` and of a tree of
XML is not. Only the standard library is used. On documents that python-docx and LibreOffice wrote, this code was
compared with libraries. python-docx 1.2 leaves out tracked insertions, content controls and text boxes; docx2python 3.7
gives a text box twice, and headers and descriptions of pictures. odfdo 3.27 joins a heading with its first paragraph
and leaves out text boxes; odfpy 1.4 gives deleted text and leaves out headings. None of them limits what is unpacked.
"""

import html
import io
import re
import struct
import zipfile
from collections.abc import Callable
from typing import IO
from xml.etree import ElementTree

from zgul.errors import ZgulError

MAX_DOCUMENT = 1 << 26  # bytes of a document, also when it is unpacked
MOST_PACKED = 200  # bytes for a byte of the packed document; those of word processors unpack to twenty
MAX_NAME = 300  # characters of an XML namespace
OFFICE = b"PK\x03\x04"  # how docx and odt begin, and every other zip file
# Errors of the libraries that read a document whose sizes, packing or encoding are wrong.
DAMAGED_DOCUMENT = (zipfile.BadZipFile, ElementTree.ParseError, LookupError, RuntimeError, ValueError, struct.error)

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
STRICT = b"http://purl.oclc.org/ooxml/wordprocessingml/main"  # the same elements, as "Strict Open XML" names them
OPEN = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_SIGNS = {f"{WORD}tab": "\t", f"{WORD}br": "\n", f"{WORD}cr": "\n", f"{WORD}noBreakHyphen": "\u2011"}
_SIGNS |= {f"{OPEN}tab": "\t", f"{OPEN}line-break": "\n", f"{OPEN}s": " "}
_PARAGRAPHS = {f"{WORD}p", f"{OPEN}p", f"{OPEN}h"}
# what was deleted or moved elsewhere, footnotes, comments, the description of a picture, the second copy of a text box,
# and how signs are read
_LEFT_OUT = {"tracked-changes", "moveFrom", "note", "annotation", "title", "desc", "Fallback", "ruby-text", "rt"}

_HTML = re.compile(rb"(\xef\xbb\xbf)?\s*(<\?xml[^>]*>\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]{1,40})", re.IGNORECASE)
_INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|ruby|s|samp|small|span|strike|"
    "strong|sub|sup|time|tt|u|var|wbr"
)
# Each search goes on where the one before ended, and none goes back, so that no page takes long.
_MARK = re.compile(r"<!--|<[!?]|</?(?P<tag>[a-z][^\s/>]*+)|</", re.IGNORECASE)
_COMMENT_END, _END = re.compile(r"(?:(?<=<!--)-?|--!?)>"), re.compile(">")
_TAG_END = re.compile(r"""(?:=\s*+(?:"[^"]*+"|'[^']*+')|[^>])*+>""")  # a mark may be part of a value
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
        if archive.getinfo(member).file_size > (1 << 20) + MOST_PACKED * len(content):
            raise ZgulError(f"The document unpacks to more than {MOST_PACKED} times its size. Save it as plain text.")
        xml = read(archive.open(member)).replace(STRICT, WORD[1:-1].encode())
    if b"<!DOCTYPE" in xml or b"<!ENTITY" in xml:
        raise ZgulError("The document defines XML entities, which no word processor does. Save it again.")
    office = _Office()
    parser = ElementTree.XMLParser(target=office)
    parser.feed(xml)
    parser.close()
    return _paragraphs("".join(office.parts))


class _Office:
    """Collects the text of a document. Elements of other kinds hold numbers, such as the place of a picture."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.open: list[str] = []  # the elements around the current place
        self.hidden = 0  # the depth of the element that is left out

    def start_ns(self, prefix: str, name: str) -> None:  # the parser calls it for each namespace
        if len(name) > MAX_NAME:  # it would be copied for each element
            raise ElementTree.ParseError("a name that is too long")

    def start(self, tag: str, attributes: object) -> None:
        self.open.append(tag)
        if not self.hidden and tag.rpartition("}")[2] in _LEFT_OUT:
            self.hidden = len(self.open)
        if not self.hidden:
            self.parts.append("\n\n" if tag in _PARAGRAPHS else _SIGNS.get(tag, ""))

    def data(self, text: str) -> None:
        own = self.open[-1]
        if not self.hidden and (own == f"{WORD}t" or own.startswith(OPEN) or own.endswith("}content-control")):
            self.parts.append(text)

    def end(self, tag: str) -> None:
        if tag in _PARAGRAPHS and not self.hidden:
            self.parts.append("\n\n")
        if self.hidden == len(self.open):
            self.hidden = 0
        self.open.pop()


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
    page, place = _Page(), 0
    while mark := _MARK.search(text, place):
        page.add(html.unescape(text[place : mark.start()]))
        place = mark.start()
        if (end := page.read(mark, text)) is None:
            break
        place = end
    page.add(html.unescape(text[place:]))
    return _paragraphs("".join(page.parts))


class _Page:
    """Collects the text of a page. Every element that is not part of a line begins and ends a paragraph."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.hidden = ""  # the element whose text is left out

    def read(self, mark: re.Match[str], text: str) -> int | None:
        """Read a mark, and return where it ends. None if it has no end: what follows is text."""
        comment, tag = mark[0] == "<!--", (mark["tag"] or "").lower()
        end = _TAG_END.match(text, mark.end()) if tag else (_COMMENT_END if comment else _END).search(text, mark.end())
        if not end or not tag:
            return end.end() if end else None
        if mark[0].startswith("</"):
            self._close(tag)
            return end.end()
        if tag == "body" or not self.hidden:
            self.hidden = tag if tag in _HIDDEN else ""
            self._border(tag)
        if end[0].endswith("/>"):
            self._close(tag)
        elif tag in ("script", "style"):  # what looks like marks in them is code
            close = re.compile(rf"</{tag}\b", re.IGNORECASE).search(text, end.end())
            return close.start() if close else len(text)
        return end.end()

    def add(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(re.sub(r"[ \t\r\n]+", " ", data))

    def _close(self, tag: str) -> None:
        if tag == self.hidden:
            self.hidden = ""
        if tag != "br":
            self._border(tag)

    def _border(self, tag: str) -> None:
        if not _INLINE.fullmatch(tag):
            self.parts.append("\n" if tag == "br" else "\n\n")


def _paragraphs(text: str) -> str:
    """Paragraphs with one blank line between them."""
    return "\n\n".join(filter(None, (part.strip() for part in re.split(r"\n\s*\n", text))))
