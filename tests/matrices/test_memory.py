"""Memory is that of the machine, or what a limit leaves of it: ulimit -v, or a control group of Linux."""

from __future__ import annotations

import sys

import pytest

from bayesgp_mf.matrices import memory

MIB = 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space and /proc are those of Linux")
def test_an_address_space_that_is_limited_is_memory(new_process):
    code = """import resource, sys
import numpy as np, bayesgp_mf as bgp
from bayesgp_mf.matrices.memory import available_bytes, mapped_bytes
resource.setrlimit(resource.RLIMIT_AS, (mapped_bytes() + 64 * 2**20, resource.RLIM_INFINITY))
print(available_bytes() <= 64 * 2**20)
try:
    bgp.fit(np.arange(3000.0)[:, None], np.arange(3000) % 2, bgp.kernels.Gaussian(), draws=5)
except MemoryError as error:
    print(error)"""
    done = new_process.run(code)
    assert done.stdout.startswith("True"), done.stderr
    assert (
        "3000 training cases need about 0.6 GiB for dense matrices, and this machine has, or a limit leaves, 0."
        in done.stdout
    )


@pytest.mark.parametrize(
    ("membership", "limits", "expected"),
    [
        (
            "0::/job/step\n",
            {"job/step/memory.max": "max", "job/memory.max": str(5 * MIB), "memory.max": str(9 * MIB)},
            5,
        ),
        ("0::/../unseen\n", {"memory.max": str(7 * MIB)}, 7),
        ("5:cpu:/a\n4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": str(3 * MIB)}, 3),
        ("4:memory:/elsewhere\n", {"memory/memory.limit_in_bytes": str(4 * MIB)}, 4),
        ("0::/\n", {}, None),
    ],
)
def test_a_control_group_has_the_least_of_its_limits_and_of_those_above(
    membership, limits, expected, tmp_path, monkeypatch
):
    (tmp_path / "membership").write_text(membership)
    for name, text in limits.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text + "\n")
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "none")
    without = memory.available_bytes()
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    assert memory.available_bytes() == (without if expected is None else expected * MIB)
    if expected is not None:
        with pytest.raises(MemoryError, match="1000 training cases need"):
            memory.check_memory(1000)
