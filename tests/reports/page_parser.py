"""What a page holds, by the parser of the standard library."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "link", "input", "hr", "wbr"}


class Page(HTMLParser):
    """Anchors, links, sources, tags and text of a page; ``unclosed`` must be empty."""

    def __init__(self, html):
        super().__init__()
        self.ids, self.links, self.sources, self.tags = [], [], [], []
        self.text, self.unclosed = "", []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if "href" in attrs:
            self.links.append(attrs["href"])
        if "src" in attrs:
            self.sources.append(attrs["src"])
        if tag not in VOID:
            self.unclosed.append(tag)

    def handle_endtag(self, tag):
        assert self.unclosed.pop() == tag

    def handle_data(self, data):
        if self.unclosed[-1:] != ["style"]:
            self.text += data


def check_self_contained(html):
    """Return the page if all its links stay inside it and it loads nothing."""
    page = Page(html)
    assert not page.unclosed
    assert len(set(page.ids)) == len(page.ids)
    assert page.links
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert all(source.startswith(("data:image/svg+xml;base64,", "data:image/png;base64,")) for source in page.sources)
    assert not {"script", "link", "iframe", "object", "base"} & set(page.tags)
    assert "url(" not in html
    assert "@import" not in html
    assert "http" not in html
    return page
