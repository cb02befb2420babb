"""The pages of the site: Markdown of the repository as HTML, with the links between them, and what a search needs."""

import collections
import html
import os
import pathlib
import re
import urllib.parse

from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Figures are no words: results have thousands of them.
WORD = re.compile(r"[^\W_]\w+")
WORD_CHARS_MAX = 40
# A word of a title counts as many times as one of the text.
TITLE_WEIGHT, TEXT_WEIGHT_MAX = 12, 5
FIRST_CHARS = 140
# Pages for users come before decisions, results and promises.
OF_USERS, USERS_FACTOR = ("docs/tutorials/", "docs/how-to/", "docs/reference/", "docs/explanation/", "README.md", "LEXICON.md"), 3
# The name of the page of a folder without one.
LISTED = "folder.md"

Heading = collections.namedtuple("Heading", "level id title")
Section = collections.namedtuple("Section", "page id title text")


class Fault(Exception):
    """What is wrong with a page; the message names it and the link."""


def resolved(place):
    """The page or file that a link to a place of the repository means; of a folder its README, or a list of files."""
    if not (ROOT / place).is_dir():
        return place
    return f"{place}/README.md" if (ROOT / place / "README.md").exists() else f"{place}/{LISTED}"


def source(path):
    """The Markdown of a page; of a folder that has none, a list of its files."""
    if pathlib.PurePath(path).name != LISTED:
        return (ROOT / path).read_text(encoding="utf-8")
    folder = pathlib.PurePath(path).parent
    names = sorted(entry.name for entry in (ROOT / folder).iterdir() if entry.is_file() and not entry.name.startswith("."))
    return f"# {folder}\n\n" + "".join(f"- [{name}]({urllib.parse.quote(name)})\n" for name in names)


def slug(title, taken):
    """The id of a heading, as GitHub makes it: the links of the documents use these."""
    text = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
    taken[text] += 1
    return text if taken[text] == 1 else f"{text}-{taken[text] - 1}"


class Page:
    """A page of Markdown: its title, its headings, its HTML, and where its links lead."""

    def __init__(self, path):
        self.path = path
        self.parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self.tokens = self.parser.parse(source(path))
        self.headings, self.links = [], []
        taken = collections.Counter()
        for at, token in enumerate(self.tokens):
            if token.type == "heading_open":
                title = plain(self.tokens[at + 1])
                heading = Heading(int(token.tag[1]), slug(title, taken), title)
                self.headings.append(heading)
                token.attrSet("id", heading.id)
            self.align(token)
            for child in token.children or []:
                name = {"link_open": "href", "image": "src"}.get(child.type)
                if name:
                    self.links.append((child, name))
        self.title = self.headings[0].title if self.headings else path

    @staticmethod
    def align(token):
        """A column's side is a class, as the site's policy allows no style in a page."""
        side = re.match(r"text-align:(right|center)", str(token.attrs.pop("style", "") if token.attrs else ""))
        if side:
            token.attrSet("class", side[1])

    def targets(self):
        """(link, attribute, path in the repository, fragment) of the links that lead to the repository."""
        for token, name in self.links:
            address = urllib.parse.urlsplit(str(token.attrs[name]))
            if address.scheme or address.netloc:
                continue
            path = urllib.parse.unquote(address.path)
            place = os.path.normpath(os.path.join(os.path.dirname(self.path), path)) if path else self.path
            yield token, name, place, address.fragment

    def html(self):
        text = self.parser.renderer.render(self.tokens, self.parser.options, {})
        # Wide tables move by themselves; headings can be linked to.
        text = text.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
        return re.sub(r'<(h[1-4]) id="([^"]*)">(.*?)</\1>',
                      r'<\1 id="\2">\3<a class="here" href="#\2" aria-label="link to this part">#</a></\1>', text, flags=re.S)

    def sections(self):
        """The text of the page, by its headings."""
        found, texts = [], []
        for at, token in enumerate(self.tokens):
            if token.type == "heading_open":
                title, name = plain(self.tokens[at + 1]), str(token.attrs["id"])
                texts = []
                found.append((title, name, texts))
            elif token.type == "inline" and self.tokens[at - 1].type != "heading_open":
                texts.append(plain(token))
            elif token.type in ("fence", "code_block"):
                texts.append(token.content)
        for number, (title, name, texts) in enumerate(found):
            whole = title if title == self.title else f"{self.title}: {title}"
            yield Section(self.path, name if number else "", whole, " ".join(" ".join(texts).split()))


def plain(token):
    """The words of a line, without its marks."""
    return "".join(child.content if child.type in ("text", "code_inline") else " " if child.type.endswith("break") else ""
                   for child in token.children or [])


def words_of(text):
    return (word.lower() for word in WORD.findall(text) if len(word) <= WORD_CHARS_MAX and not word[0].isdigit())


def index(pages, address):
    """What the search reads: sections, and for each word the sections that have it, with a weight."""
    sections, words = [], collections.defaultdict(dict)
    for page in pages:
        for section in page.sections():
            number = len(sections)
            first = section.text[:FIRST_CHARS].rsplit(" ", 1)[0] if len(section.text) > FIRST_CHARS else section.text
            sections.append([address(section.page), section.id, section.title, first])
            factor = USERS_FACTOR if section.page.startswith(OF_USERS) else 1
            for word, count in collections.Counter(words_of(section.text)).items():
                words[word][number] = min(count, TEXT_WEIGHT_MAX) * factor
            for word in set(words_of(section.title)):
                words[word][number] = words[word].get(number, 0) + TITLE_WEIGHT * factor
    listed = [[word, *(value for one in sorted(words[word].items()) for value in one)] for word in sorted(words)]
    return {"sections": sections, "words": listed}


def groups(page):
    """The order of the documents: each heading of docs/README.md with the pages that it lists."""
    found, title, name = [], None, None
    for at, token in enumerate(page.tokens):
        if token.type == "heading_open" and token.tag == "h2":
            title = plain(page.tokens[at + 1]).split(":")[0]
            found.append((title, []))
        for child in token.children or []:
            if child.type == "link_open" and found and not urllib.parse.urlsplit(str(child.attrs["href"])).scheme:
                name = os.path.normpath(os.path.join("docs", urllib.parse.urlsplit(str(child.attrs["href"])).path))
                if name.endswith(".md") and name not in found[-1][1]:
                    found[-1][1].append(name)
    return found


def escaped(text):
    return html.escape(text, quote=True)
