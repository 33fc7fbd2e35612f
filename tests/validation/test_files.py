"""What a job writes is whole or not there: killed, out of disk, or stopped by an error."""

from __future__ import annotations

import json
import sys

import pytest
import xarray as xr

from validation.reporting.files import whole, write_netcdf, write_text


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked, and their files limited")
def test_killed_or_out_of_disk_no_file_looks_whole_and_is_not(new_process, tmp_path):
    run = "import runpy; runpy.run_module('tests.validation.interrupted', run_name='__main__')"
    done = new_process.run(run, tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["studies"]["names"] == ["validation.html", "validation.json"]
    assert found["outputs"]["names"] == ["draws.nc", "figure.png", "numbers.json", "page.html"]
    for job in found.values():
        assert job["wrong"] == []
        assert all(job["again"])
        assert len(job["seen"]) > 1  # some were stopped before the end, and some files were there


def test_what_fails_leaves_the_file_as_it_was(tmp_path):
    path = write_text(tmp_path / "page.html", "first")
    with pytest.raises(FileNotFoundError), whole(path):
        pass  # and nothing is written
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half a page \ud800")
    with pytest.raises((TypeError, ValueError)):
        write_netcdf(path, xr.Dataset({"x": ("a", [{}])}))
    assert path.read_text() == "first"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    write_text(path, "second")
    assert path.read_text() == "second"
