"""The package as a whole: names, laziness, version."""

from __future__ import annotations

import subprocess
import sys
from inspect import isfunction, ismethod
from types import ModuleType

import pytest

import bayesgp_mf as bgp
from bayesgp_mf import hyper


def test_every_public_name_is_there_and_documented():
    for name in bgp.__all__:
        value = getattr(bgp, name)
        assert (value.__doc__ or "").strip(), name
    assert set(bgp.__all__) <= set(dir(bgp))
    packages = {name for name in bgp.__all__ if isinstance(getattr(bgp, name), ModuleType)}
    assert len(bgp.__all__) - len(packages) <= 50
    assert len(packages) <= 15  # the 14 of the plan, and `survival`


def test_every_public_function_has_an_example():
    rooms = [bgp, hyper, *(room for name in bgp.__all__ if isinstance(room := getattr(bgp, name), ModuleType))]
    public = {(room.__name__, name): getattr(room, name) for room in rooms for name in room.__all__}
    functions = {name: value for name, value in public.items() if isfunction(value) or ismethod(value)}
    assert len(functions) > 50
    assert [name for name, value in functions.items() if ">>>" not in value.__doc__] == []


def test_functions_are_not_shadowed_by_modules():
    assert all(callable(getattr(bgp, name)) for name in ("fit", "predict", "solve", "loo", "posterior"))


def test_a_mistyped_name_is_answered():
    with pytest.raises(AttributeError, match=r"no attribute 'fitt'; it has .*fit"):
        _ = bgp.fitt


def test_a_former_name_is_answered_with_what_took_its_place():
    for name in ("OneVsRest", "classifier"):
        with pytest.raises(AttributeError, match=r"sklearn\.multiclass\.OneVsRestClassifier\(bgp\.sklearn\.GPCl"):
            getattr(bgp, name)
        assert not hasattr(bgp, name)


def test_importing_the_package_imports_nothing_heavy():
    heavy = ("numpy", "scipy", "xarray", "arviz", "pymc", "sklearn", "polars", "narwhals", "dask")
    code = f"import sys, bayesgp_mf; print(*[m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_fitting_imports_no_pymc_and_no_matplotlib():
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); import bayesgp_mf as bgp; "
        "from bayesgp_mf.inputs.options import as_kernel; "
        "bgp.solve([[1.0]], [1], bgp.Probit()); as_kernel(bgp.kernels.Gaussian()); "
        "heavy = 'pymc', 'pytensor', 'arviz', 'matplotlib', 'sklearn', 'polars', 'narwhals'; "
        "print(*[m for m in heavy if m in sys.modules]); "
        "bgp.report, bgp.plots.plot_latent; "
        "print(*[m for m in ('pymc', 'matplotlib.figure') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() == []


def test_without_scikit_learn_its_room_says_what_to_install():
    code = (
        "import sys; sys.modules['sklearn'] = None; import bayesgp_mf as bgp\n"
        "try: bgp.sklearn\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "bayesgp-mf[sklearn]"' in said
