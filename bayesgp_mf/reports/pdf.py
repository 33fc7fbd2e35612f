"""A page on paper: printed by a browser without a window, where this machine has one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")


def browser() -> str:
    """Return the program that prints, or raise a ValueError."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise ValueError(
            f"a report is printed as PDF by a browser, and this machine has none of {', '.join(BROWSERS)} on its PATH. "
            "Write it to a name that ends in .html, and print that from any browser."
        )
    return found


def as_pdf(program: str, html: str, path: Path) -> None:
    """Print a page to a file, or raise an OSError with what the browser said."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(html, encoding="utf-8")
        options = ["--headless", "--no-pdf-header-footer", f"--user-data-dir={folder}", f"--print-to-pdf={path}"]
        if getattr(os, "geteuid", lambda: 1)() == 0:  # by whom it does not run with one; the page has no script
            options.append("--no-sandbox")
        done = subprocess.run([program, *options, page.as_uri()], capture_output=True, timeout=120, check=False)
    if done.returncode or not path.exists():
        raise OSError(f"{program} did not print the report: {done.stderr.decode(errors='replace')[-500:].strip()}")
