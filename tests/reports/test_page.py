"""The page: self-contained, escaped, every anchor there."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ET

import pytest

from bayesgp_mf.plots import plot_loo
from bayesgp_mf.reports.page import Figures, Section, Table, render
from tests.reports.page_parser import check_self_contained

NASTY = "a < b & \"c\" <script>alert('x')</script>"
SUMMARY = Table("All checks.", ("Check", "Verdict"), [("one", "PASS"), ("two", "FAIL")])


def page(*sections, lead=("Found.",)):
    return render("Title", lead, SUMMARY, sections)


def test_contents_list_every_section_and_all_anchors_resolve():
    html = page(Section("First thing", ["text"]), Section("Second, other thing", ["text"]))
    parsed = check_self_contained(html)
    assert parsed.links == ["#first-thing", "#second-other-thing"]


def test_check_notices_a_page_that_is_not_self_contained():
    html = page(Section("First", ["text"]))
    for bad in ('<img src="https://x.org/a.png">', '<a href="#nowhere">x</a>', "<script></script>", "<p>"):
        with pytest.raises(AssertionError):
            check_self_contained(html.replace("</main>", bad + "</main>"))


def test_all_text_is_escaped():
    table = Table(NASTY, (NASTY,), [(NASTY,)])
    ax = plot_loo([-0.1, -0.2])
    html = render(NASTY, [NASTY], table, [Section(NASTY, [NASTY, table, Figures([(ax, NASTY)])])])
    parsed = check_self_contained(html)
    # title, h1, lead, contents, heading, paragraph; caption, header and cell of two tables; figure caption
    assert parsed.text.count(NASTY) == 13
    assert "script" not in parsed.tags


def test_figures_are_inside_the_page_and_have_no_text_that_needs_a_font():
    html = page(Section("Figures", [Figures([(plot_loo([-0.1, -0.2]), "A caption."), (plot_loo([-1.0]), "B.")])]))
    parsed = check_self_contained(html)
    assert len(parsed.sources) == 2
    for source in parsed.sources:
        root = ET.fromstring(base64.b64decode(source.partition(",")[2]))
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert "path" in tags
        assert not tags & {"text", "image"}
    assert "Figure 1. A caption." in parsed.text
    assert "Figure 2. B." in parsed.text


def test_tables_are_numbered_captioned_and_scroll_in_their_own_box():
    html = page(Section("Table", [Table("Second.", ("a", "b"), [("1", "2")])]))
    parsed = check_self_contained(html)
    assert "Table 1. All checks." in parsed.text
    assert "Table 2. Second." in parsed.text
    assert html.count('<div class="scroll"') == parsed.tags.count("table") == 2


def test_verdicts_are_words_with_a_class_each():
    html = page(Section("Section", []))
    assert '<td class="PASS">PASS</td>' in html
    assert '<td class="FAIL">FAIL</td>' in html


def test_titles_with_the_same_anchor_are_refused():
    with pytest.raises(ValueError, match="must differ"):
        page(Section("A section", []), Section("A, section!", []))
