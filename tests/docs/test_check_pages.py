"""The check of the built pages finds what it looks for, and nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "docs" / "_ext" / "check_pages.py"
SPEC = importlib.util.spec_from_file_location("check_pages", PATH)
check_pages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_pages)

ANY_ARGUMENTS = (
    '<em class="sig-param"><span class="o"><span class="pre">*</span></span><span class="n"><span class="pre">args'
    '</span></span></em>, <em class="sig-param"><span class="o"><span class="pre">**</span></span><span class="n">'
    '<span class="pre">options</span></span></em>'
)
"""What autodoc shows of a class that is made by a ``__new__`` with any arguments."""


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ('<script src="https://somewhere.example/a.js"></script>', ".html"),
        ('<script src="//somewhere.example/a.js"></script>', ".html"),
        ('<img alt="a curve" src="http://somewhere.example/a.png">', ".html"),
        ('<img alt="a curve" srcset="https://somewhere.example/a.png 2x">', ".html"),
        ('<link rel="stylesheet" href="https://somewhere.example/a.css">', ".html"),
        ("<style>@import url(https://somewhere.example/a.css);</style>", ".html"),
        ('<p style="background: url(https://somewhere.example/a.png)">', ".html"),
        ("<script>fetch('https://somewhere.example/a')</script>", ".html"),
        ('<script type="module">import "https://somewhere.example/a.mjs"</script>', ".html"),
        ('<img src="a.png">', ".html"),
        ('<img src="a.png" alt=" ">', ".html"),
        (r"<p>\(x^2\)</p>", ".html"),
        ("body { background: url('//somewhere.example/a.png') }", ".css"),
        ('importScripts("https://somewhere.example/a.js")', ".js"),
        ("<pre>/opt/lib/python3.12/site-packages/a.py:1: UserWarning: slow</pre>", ".html"),
        ("<pre>/tmp/docs/gallery/01_one.py:13: ConvergenceWarning: averages are off</pre>", ".html"),
        ("<td>Compare models by leave-one-out <a>[R88feee07a315-1]</a>.</td>", ".html"),
        ("<p>attrgetter(attr, ...) --&gt; attrgetter object</p>", ".html"),
        (ANY_ARGUMENTS, ".html"),
    ],
)
def test_what_is_wrong_is_found(text, suffix):
    assert len(check_pages.wrong_with(text, suffix)) == 1


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ('<a href="https://somewhere.example">a link is followed by the reader</a>', ".html"),
        ('<img alt="a curve" src="_images/a.png"><script src="_static/a.js"></script>', ".html"),
        (
            '<link rel="stylesheet" href="_static/a.css"><link rel="canonical" href="https://somewhere.example">',
            ".html",
        ),
        (r"<pre>print('\(x\)')</pre><code>\[</code>", ".html"),
        ("a { background: url(a.png) } /* https://somewhere.example */", ".css"),
        ("// see https://somewhere.example", ".js"),
    ],
)
def test_what_is_right_is_left_alone(text, suffix):
    assert check_pages.wrong_with(text, suffix) == []


def test_a_folder_without_pages_fails(tmp_path):
    with pytest.raises(SystemExit):
        check_pages.main(tmp_path)


def small_site(folder):
    """Write a front page that links to half of what must be near, and to a page that links to the rest."""
    near = list(check_pages.NEAR.values())
    pages = {page: "<article>well</article>" for page in near}
    pages["index.html"] = linking(*near[:3], "more/other.html")
    pages["more/other.html"] = linking(*(f"../{page}#top" for page in near[3:]))
    for name, text in pages.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return len(pages)


def linking(*targets):
    return "<article>" + "".join(f'<a class="reference" href="{target}">there</a>' for target in targets) + "</article>"


def test_a_folder_is_searched_to_its_end(tmp_path, capsys):
    count = small_site(tmp_path)
    check_pages.main(tmp_path)
    assert f"{count} pages load nothing" in capsys.readouterr().out
    (tmp_path / "more" / "a.html").write_text('<img src="a.png">')
    with pytest.raises(SystemExit, match=f"1 things are wrong on {count + 1} pages"):
        check_pages.main(tmp_path)


def test_what_is_three_clicks_away_is_far(tmp_path):
    small_site(tmp_path)
    assert check_pages.far(tmp_path) == []
    assert len(check_pages.far(tmp_path, clicks=1)) == len(check_pages.NEAR) - 3
    further = tmp_path / "more" / "other.html"
    further.rename(tmp_path / "more" / "further.html")
    further.write_text(linking("further.html"))
    assert len(check_pages.far(tmp_path)) == len(check_pages.NEAR) - 3


def test_the_list_of_all_pages_does_not_count(tmp_path):
    small_site(tmp_path)
    page = tmp_path / "index.html"
    page.write_text(page.read_text().replace("article", "nav"))
    assert len(check_pages.far(tmp_path)) == len(check_pages.NEAR)
