"""A page about any fit: a file for each section, one for what a page is made of, and one that puts it together.

Nobody looks inside but `validation`, whose pages are made of the same.
"""

from __future__ import annotations

from bayesgp_mf.reports.report import report

__all__ = ["report"]
