"""Names that users gave, as a figure can draw them: in lines, cut where they are long, with no accidental formula."""

from __future__ import annotations

import re
import textwrap

LONGEST, LONGEST_TICK, LONGEST_ENTRY = 80, 24, 30
"""Letters of a name on an axis, at a tick and in a legend, beyond which it is cut."""
LETTERS = 42
"""Of a line along an axis."""
_DOLLAR = re.compile(r"(?<!\\)\$")


def as_drawn(name: object, letters: int = LETTERS, longest: int = LONGEST) -> str:
    r"""Return a name as matplotlib draws it: between two dollars a formula if it is one, and else every letter itself.

    Examples
    --------
    >>> as_drawn("dose (mg)"), as_drawn("$x_1$"), as_drawn("cost in $"), as_drawn("$5 to $9 {")
    ('dose (mg)', '$x_1$', 'cost in \\$', '\\$5 to \\$9 {')
    """
    visible = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in _one_line(name))
    lines = in_lines(cut(visible, longest), letters) or "''"
    if all(_is_formula_or_none(line) for line in lines.split("\n")):
        return lines
    return _DOLLAR.sub(r"\\$", lines)


def at_tick(name: object) -> str:
    """Return a name for a tick, where there is little room."""
    return as_drawn(name, LONGEST_TICK, LONGEST_TICK)


def in_legend(name: object, before: str = "") -> str:
    """Return a name for an entry of a legend, from which matplotlib leaves out what begins with an underscore."""
    text = before + as_drawn(name, LONGEST_ENTRY, LONGEST_ENTRY)
    return f" {text}" if text.startswith("_") else text


def cut(name: str, longest: int) -> str:
    """Return a name with no more than so many letters."""
    return name if len(name) <= longest else name[: longest - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def in_lines(name: str, letters: int) -> str:
    """Return a long name in lines of so many letters, broken before a bracket, at spaces, and after underscores."""
    if len(name) <= letters:
        return name
    before, bracket, within = name.partition("[")
    loose = [
        part.replace("_", "_\0 ") for part in (before, bracket + within) if part
    ]  # a space that is taken out again
    lines = [line for part in loose for line in textwrap.wrap(part, letters)]
    return "\n".join(lines).replace("\0 ", "").replace("\0", "")


def _one_line(name: object) -> str:
    return " ".join(str(name).split())


def _is_formula_or_none(line: str) -> bool:
    """Tell whether matplotlib takes no part of a line for a formula, or only parts that are meant so."""
    parts = _DOLLAR.split(line)
    formulas, after = parts[1::2], parts[2::2]
    if not formulas:
        return True
    if len(formulas) > len(after):  # one dollar has no other
        return False
    if any(not each or each != each.strip() for each in formulas) or any(each[:1].isdigit() for each in after):
        return False  # as in "from $5 to $9"
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(line)
    except ValueError:
        return False
    return True
