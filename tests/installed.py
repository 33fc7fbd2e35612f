"""Check a built wheel as its users have it: installed in an empty environment, outside the checkout.

It is imported, loads its data, prints what the README says, draws every plot and four reports, and runs those examples
that need no extra.

``make dist`` runs it: ``python tests/installed.py dist/bayesgp_mf-0.3.0-py3-none-any.whl``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
WHERE = "import bayesgp_mf; print(bayesgp_mf.__file__)"
EVERYTHING = """
import importlib, pkgutil
import bayesgp_mf as bgp
skipped = {"bayesgp_mf.sklearn"}  # an extra, like what it imports
for found in pkgutil.walk_packages(bgp.__path__, "bayesgp_mf."):
    if not any(found.name == name or found.name.startswith(name + ".") for name in skipped):
        importlib.import_module(found.name)
for name in ("pima", "sonar", "crabs", "forensic_glass"):
    getattr(bgp.datasets, "load_" + name)()
"""


FIGURES = """
import sys
import warnings
import numpy as np
import bayesgp_mf as bgp

warnings.simplefilter("ignore")
rng = np.random.default_rng(1)
X = rng.standard_normal((40, 2))
kernel, quick = bgp.kernels.Gaussian(1.0, 3.0), dict(draws=20, random_seed=1, progress=False)
two = bgp.fit(X, np.where(X[:, 0] > 0, "yes", "no"), kernel, hyper="evidence", **quick)
laplace = bgp.fit(X, np.where(X[:, 0] > 0, "yes", "no"), kernel, method="laplace", **quick)
labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
three = bgp.fit(X, labels, kernel, bgp.MultinomialProbit(), **quick)
line = bgp.fit(X[:, :1], np.sin(X[:, 0]), kernel, bgp.likelihoods.Gaussian(0.1), **quick)
counts = bgp.fit(X, rng.poisson(3.0, 40), kernel, bgp.Poisson(), **quick)
event = np.column_stack([rng.exponential(2.0, 40), rng.random(40) < 0.7])
times = bgp.fit(X, event, kernel, bgp.likelihoods.Censored(bgp.likelihoods.Weibull(1.0)), **quick)
stream = bgp.streams.Stream(kernel, bgp.Probit(), budget=10)
for part in range(4):
    rows = slice(10 * part, 10 * part + 10)
    stream = stream.update(X[rows], np.where(X[rows, 0] > 0, 1, -1))
duels = bgp.duels.Duels(["a", "a", "b"], ["b", "c", "c"])
played = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), **quick)
fits = {
    "plot_latent": line, "plot_map": two, "plot_survival": times, "plot_surface": three,
    "plot_partial_dependence": two, "plot_relevance": two,
    "plot_hyperparameters": two, "plot_search": two, "plot_calibration": two, "plot_roc": two, "plot_loo": two,
    "plot_confusion": three, "plot_counts": counts, "plot_stream": stream,
}
for name in bgp.plots.__all__:
    if name == "plot_agreement":
        bgp.plots.plot_agreement(two, laplace)
    elif name in ("plot_duels", "plot_utility"):
        getattr(bgp.plots, name)(played, duels)
    elif name not in ("alt_text", "plot_models"):
        getattr(bgp.plots, name)(fits.pop(name))
assert not fits, fits
for name, idata in (("two", two), ("three", three), ("line", line), ("counts", counts)):
    bgp.report(idata, f"{name}.html")
"""
EXAMPLES = ("01_one_input", "02_probability_map", "03_which_inputs", "05_averaging", "08_robust", "11_stream")


def main(wheel: Path) -> None:
    """Install the wheel, import all of it, load its data, and run the README's example and some of the gallery."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    expected = readme.split(example)[1].split("```text\n")[1].split("```")[0]
    with TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if sys.platform == "win32" else "bin", "python")

        def run(*arguments: str) -> str:
            environment = os.environ | {"MPLBACKEND": "Agg"}
            return subprocess.run(
                [python, *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
            ).stdout

        run("-m", "pip", "install", "--quiet", str(wheel.resolve()))
        where = Path(run("-c", WHERE).strip())
        if not where.is_relative_to(Path(folder).resolve()):
            raise SystemExit(f"expected the package of the wheel, got that of {where}; leave out PYTHONPATH")
        run("-W", "ignore", "-c", EVERYTHING)
        said = run("-c", example)
        if said.strip() != expected.strip():
            raise SystemExit(f"expected that the README's example prints\n{expected}\ngot\n{said}")
        run("-c", FIGURES)
        for name in EXAMPLES:
            run("-W", "ignore", str(ROOT / "docs" / "gallery" / f"{name}.py"))
    print(f"{wheel.name}: installs, imports, runs the README's example, draws every plot and four reports, runs")
    print(f"{len(EXAMPLES)} of the gallery")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
