"""The README's example runs and prints what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.skipif(not README.is_file(), reason="installed without its README")
def test_the_example_prints_what_the_readme_shows(new_process):
    text = README.read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    expected = text.split(example)[1].split("```text\n")[1].split("```")[0]
    run = new_process.run(example)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == expected.strip()
    assert "Warning" not in run.stderr  # the README mentions none
