"""Containers in files: saved, loaded, damaged by a few bytes, cut, and things that are no containers."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import arviz as az
import h5netcdf
import numpy as np
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names

RNG = np.random.default_rng(5)
X = RNG.normal(size=(12, 2))
Y = np.where(X[:, 0] > 0, "yes", "no")
KERNEL = bgp.kernels.Gaussian(1.0, 2.0)
QUICK = {"draws": 20, "chains": 2, "random_seed": 1, "progress": False}
RECORDED = Path(__file__).parent / "recorded"


def fitted(**options):
    return bgp.fit(X, Y, KERNEL, **QUICK, **options)


def averaged():
    priors = {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}
    return fitted(hyper=bgp.hyper.Integrate(starts=1), priors=priors, fixed=["variance"])


def stream():
    return bgp.streams.Stream(KERNEL, random_seed=1).update(X, Y).to_container(draws=20, chains=2, random_seed=1)


def same(one, other):
    """Whether two containers have the same groups, to the last bit, and the same attributes."""
    assert sorted(group_names(one)) == sorted(group_names(other))
    for name in group_names(one):
        xr.testing.assert_identical(get_group(one, name), get_group(other, name))


def prior():
    return bgp.prior_predictive(X, KERNEL, draws=5, random_seed=1)


@pytest.mark.parametrize("made", [averaged, stream, prior, lambda: bgp.predict(fitted(), X[:3], random_seed=1)])
def test_what_was_saved_is_loaded_by_us_and_by_arviz(made, tmp_path):
    idata = made()
    path = bgp.save(idata, tmp_path / "folder" / "fit.nc")
    loaded = bgp.load(path)
    same(loaded, idata)
    same(az.from_netcdf(str(path)), idata)
    assert type(loaded) is type(idata)
    bgp.save(loaded, path)  # under the same name: nothing is open
    same(bgp.load(path), idata)
    assert list(path.parent.iterdir()) == [path]


def test_120_files_that_were_damaged_are_refused_or_the_same(tmp_path):
    """Of a file with a digest nothing that was damaged is read."""
    idata, path, refused = fitted(), tmp_path / "fit.nc", 0
    whole = bgp.save(idata, path).read_bytes()
    for seed in range(120):
        rng, content = np.random.default_rng(seed), bytearray(whole)
        if seed % 6 == 5:
            del content[rng.integers(0, len(content) - 200) :]
        else:
            for k in rng.integers(0, len(content) - 200, rng.integers(1, 6)):  # what is behind: the test below
                content[k] ^= int(rng.integers(1, 256))
        path.write_bytes(content)
        if seed % 6 == 5 and seed > 5:
            continue  # a file without a digest takes another process
        with pytest.raises(bgp.DamagedFileError, match=re.escape(str(path))):
            bgp.load(path)
        refused += 1
    assert refused == 101


def endless(content: bytes) -> bytes:
    """Return a file in which texts have such sizes that HDF5 goes round in circles."""
    found, first = bytearray(content), content.find(b"GCOL") + 24
    struct.pack_into("<Q", found, first, 2**64 - 16)
    return bytes(found)


def edited(content: bytes) -> bytes:
    """Return a file with another number in its place, which is written as it is."""
    (number,) = (k for k in range(len(content)) if content.startswith(np.float64(0.12345).tobytes(), k))
    return content[:number] + np.float64(0.2).tobytes() + content[number + 8 :]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (endless, "crashed, or came to no end"),
        (edited, "lengthscale in the group fit was changed since it was written"),
    ],
)
def test_a_file_without_a_digest_is_read_elsewhere_first(damage, message, tmp_path):
    path, idata = tmp_path / "fit.nc", bgp.fit(X, Y, bgp.kernels.Gaussian(0.12345), **QUICK)
    for group in group_names(idata):
        get_group(idata, group).to_netcdf(path, group=group, mode="a" if path.exists() else "w", engine="h5netcdf")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(bgp.DamagedFileError, match=message):
        bgp.load(path)


def test_a_file_that_arviz_or_version_01_wrote_and_one_that_was_added_to(tmp_path):
    idata, path = fitted(), tmp_path / "fit.nc"
    assert "fit" in group_names(bgp.load(RECORDED / "dense.nc"))
    bgp.save(idata, path)
    with h5netcdf.File(path, "a") as file:  # which cuts the digest off
        file.dimensions = {"page": 2}
        file.create_variable("notes/number", ("page",), data=np.array([3.0, 4.0]))
    loaded = bgp.load(path)
    assert get_group(loaded, "notes")["number"].values.tolist() == [3.0, 4.0]
    assert sorted(group_names(loaded)) == sorted([*group_names(idata), "notes"])


def test_a_file_of_more_than_there_can_be_in_it_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "large.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"obs_id": 10**12}
        file.create_variable("fit/alpha", ("obs_id",), np.float64, chunks=(1000,))
    with pytest.raises(bgp.DamagedFileError, match="states 8000000000000 bytes of arrays"):
        bgp.load(path)


def test_the_last_bytes_of_a_file(tmp_path):
    """Those of the digest: what they are of is checked otherwise."""
    idata, path = fitted(), tmp_path / "fit.nc"
    whole = bgp.save(idata, path).read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(bgp.DamagedFileError, match="its digest is not that of what is in it"):
        bgp.load(path)
    path.write_bytes(whole[:-7])
    same(bgp.load(path), idata)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\3\4" + bytes(500), b"<!DOCTYPE html>" * 9])
def test_what_is_no_netcdf_file_is_said_to_be_none(content, tmp_path):
    path = tmp_path / "fit.nc"
    path.write_bytes(content)
    with pytest.raises(bgp.DamagedFileError, match="does not begin as a netCDF file does") as caught:
        bgp.load(path)
    assert ("bgp.streams.load" in str(caught.value)) == content.startswith(b"PK")


def test_paths_and_things_that_are_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    idata = fitted()
    assert bgp.save(idata, "~/fit.nc") == tmp_path / "fit.nc"
    same(bgp.load("~/fit.nc"), idata)
    for path, message in (
        (None, "path must be the name of a file, text or a pathlib.Path, got None"),
        (3, "got 3"),
        ("", "is empty"),
        ("a\0.nc", "has a NUL character"),
        (tmp_path, "is a folder"),
    ):
        for call in (bgp.load, lambda path: bgp.save(idata, path)):
            with pytest.raises(ValueError, match=message):
                call(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        bgp.load(tmp_path / "none.nc")
    with pytest.raises(ValueError, match="was not made by bayesgp_mf"):
        bgp.save(az.from_dict({"posterior": {"a": np.zeros((1, 2))}}), tmp_path / "other.nc")
    assert [each.name for each in tmp_path.iterdir()] == ["fit.nc"]


FULL = """
import resource, sys
import bayesgp_mf as bgp
idata = bgp.fit([[0.0], [1.0]], [0, 1], bgp.kernels.Gaussian(), draws=20_000, random_seed=1, progress=False)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    bgp.save(idata, sys.argv[1])
except OSError as error:
    print(error)
print("alive")
"""


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system does not say what room there is")
def test_a_file_for_which_there_is_no_room_is_an_error_and_not_the_end_of_the_process(tmp_path):
    path = tmp_path / "fit.nc"
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "MiB" in done.stdout
    assert done.stdout.endswith("alive\n")
    assert not list(tmp_path.iterdir())
