"""The README's example runs and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.skipif(not README.is_file(), reason="installed without its README")
def test_the_example_prints_what_the_readme_shows():
    text = README.read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    expected = text.split(example)[1].split("```text\n")[1].split("```")[0]
    run = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == expected.strip()
    assert "Warning" not in run.stderr  # the README mentions none
