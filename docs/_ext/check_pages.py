"""Check the built pages: they load nothing from elsewhere, every picture has a text, what many look for is near.

``make docs`` runs it: ``python docs/_ext/check_pages.py docs/_build/html``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

LOADING = {"src", "srcset", "poster", "data"}  # attributes by which a browser loads something by itself
ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
STYLE_ELSEWHERE = re.compile(r"(?:url\(|@import)\s*['\"]?\s*(?:https?:)?//[^'\")\s]*", re.IGNORECASE)
SCRIPT_ELSEWHERE = re.compile(r"(?:import|fetch|importScripts)\s*\(?\s*['\"`](?:https?:)?//[^'\"`]*", re.IGNORECASE)
WARNED = re.compile(r"\S/\S+\.py:\d+: \w*Warning")
INNER = re.compile(r"\[R[0-9a-f]{8,}-\d+\]|attrgetter\(attr")
ANY_ARGUMENTS = re.compile(r'class="pre">args</span></span></em>, (?:<[^>]+>)+\*\*(?:<[^>]+>)+options<')
LATEX = re.compile(r"\\\(|\\\[|\$\$")
CONTENT = re.compile(r"<article.*?</article>", re.DOTALL)
LINK = re.compile(r"""<a [^>]*href=["']([^"'#:]+)["'#]""")
NEAR = {
    "the picture of a fit": "auto_gallery/01_one_input.html",
    "how to choose": "choose.html",
    "a pipeline": "auto_gallery/04_pipeline.html",
    "a model in PyMC": "auto_gallery/06_pymc_model.html",
    "large data": "large_data.html",
    "whether it is good enough": "auto_gallery/13_good_enough.html",
}
"""What must be two clicks from the front page, by links in the text: the list of all pages beside it is long."""


class Page(HTMLParser):
    """Collects what is wrong with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Look at what an element loads, and at the text of a picture."""
        if tag in ("script", "style", "code", "pre"):
            self._inside.append(tag)
        found = {name: value or "" for name, value in attributes}
        loads = [found[name] for name in LOADING & set(found)]
        if tag == "link" and {"stylesheet", "preload", "icon"} & set(found.get("rel", "").split()):
            loads.append(found.get("href", ""))
        self.wrong += [f"<{tag}> loads {target}" for target in loads if ELSEWHERE.match(target)]
        self.wrong += [f"style loads {match}" for match in STYLE_ELSEWHERE.findall(found.get("style", ""))]
        if tag == "img" and not found.get("alt", "").strip():
            self.wrong.append(f"a picture without a text: {found.get('src', '')}")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        """Look into styles and scripts, and for formulas that nobody draws."""
        inside = self._inside[-1] if self._inside else None
        if inside == "style":
            self.wrong += [f"style loads {match}" for match in STYLE_ELSEWHERE.findall(data)]
        elif inside == "script":
            self.wrong += [f"script loads {match}" for match in SCRIPT_ELSEWHERE.findall(data)]
        elif INNER.search(data):
            self.wrong.append(f"a name that is not of this package: {data.strip()[:60]}")
        elif "site-packages" in data or WARNED.search(data):
            self.wrong.append(f"a path of the machine that built it: {data.strip()[:60]}")
        elif inside is None and LATEX.search(data):
            self.wrong.append(f"a formula that is not drawn: {data.strip()[:60]}")


def wrong_with(text: str, suffix: str) -> list[str]:
    """Return what is wrong with the text of a page, a style sheet or a script."""
    if suffix == ".css":
        return [f"loads {match}" for match in STYLE_ELSEWHERE.findall(text)]
    if suffix == ".js":
        return [f"loads {match}" for match in SCRIPT_ELSEWHERE.findall(text)]
    page = Page()
    page.feed(text)
    if ANY_ARGUMENTS.search(text):
        page.wrong.append("a class whose arguments are not shown")
    return page.wrong


def check(folder: Path) -> Iterator[str]:
    """Yield a line for each thing that is wrong in a folder of pages."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css", ".js"):
            for wrong in wrong_with(path.read_text(encoding="utf-8"), path.suffix):
                yield f"{path.relative_to(folder)}: {wrong}"


def far(folder: Path, clicks: int = 2) -> list[str]:
    """Return what of `NEAR` cannot be reached from the front page by so many clicks."""
    folder = folder.resolve()
    reached = last = {folder / "index.html"}
    for _ in range(clicks):
        last = {target for page in last for target in linked(page)} - reached
        reached = reached | last
    return [
        f"index.html: not {clicks} clicks from {name}, {page}"
        for name, page in NEAR.items()
        if folder / page not in reached
    ]


def linked(page: Path) -> set[Path]:
    """Return the pages that the text of a page links to."""
    text = "".join(CONTENT.findall(page.read_text(encoding="utf-8")))
    found = {(page.parent / link).resolve() for link in LINK.findall(text)}
    return {target for target in found if target.suffix == ".html" and target.is_file()}


def main(folder: Path) -> None:
    """Print what is wrong, and fail if anything is, or if there are no pages."""
    pages = len(list(folder.rglob("*.html")))
    found = [*check(folder), *(far(folder) if pages else [])]
    print("\n".join(found))
    if found or not pages:
        raise SystemExit(f"{len(found)} things are wrong on {pages} pages in {folder}")
    print(f"{pages} pages load nothing from elsewhere, each picture on them has a text, what is looked for is near")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
