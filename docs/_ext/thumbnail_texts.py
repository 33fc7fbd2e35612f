"""Thumbnails of the gallery get a text, the title of their example, for those who do not see them."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

THUMBNAIL = re.compile(r"(?P<folder>.*)/images/thumb/sphx_glr_(?P<name>.*)_thumb\.\w+$")


def add_texts(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give each thumbnail without a text the title of the page that it leads to."""
    for image in doctree.findall(nodes.image):
        found = THUMBNAIL.match(image["uri"].lstrip("/"))
        if found and not image.get("alt"):
            title = app.env.titles[f"{found['folder']}/{found['name']}"]
            image["alt"] = f"Figure of: {title.astext()}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the change."""
    app.connect("doctree-resolved", add_texts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
