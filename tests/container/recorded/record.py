"""How the containers of this folder were made, by version 0.1.0, and what is asked of them.

They show that what one version saved, later ones load; so they are not made again when a later one would write others.
``python -m tests.container.recorded.record FOLDER`` writes such a set into a folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import bayesgp_mf as bgp

RANDOM_SEED = 3
X_NEW = np.array([[-1.5, 0.0], [0.0, 0.5], [1.0, -1.0]])


def make_fits() -> dict[str, Any]:
    """Return one small container of each kind: a dense matrix, one of low rank, an average over kernels."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-2, 2, (40, 2))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(40) > 0, "yes", "no")
    smooth = bgp.kernels.Gaussian(4.0, 4.0)
    kernel = bgp.kernels.Gaussian([1.5, 3.0], 4.0) + bgp.kernels.Bias(0.5)
    few = {"draws": 10, "chains": 2, "random_seed": 1}
    return {
        "dense": bgp.fit(X, y, kernel, bgp.Probit(), **few),
        "low_rank": bgp.fit(X, y, smooth, bgp.Probit(), control=bgp.Control(gram="low_rank"), **few),
        "averaged": bgp.fit(
            X,
            y,
            kernel,
            bgp.Logit(),
            method="laplace",
            hyper="integrate",
            priors={"gaussian_lengthscale": bgp.hyper.LogNormal(0.5, 0.5)},
            fixed=("gaussian_variance", "bias_variance"),
            **few,
        ),
    }


def numbers_of(idata: Any, X_new: np.ndarray, random_seed: int) -> dict[str, np.ndarray]:
    """Return what a container predicts, what its posterior says, and what it has saved."""
    idata, posterior = bgp.predict(idata, X_new, random_seed=random_seed), bgp.posterior(idata)
    mean, variance = posterior.latent(X_new)
    return {
        "p": idata["predictions"]["p"].values,
        "mean": mean,
        "variance": variance,
        "loo_i": posterior.loo.log_density,
        "f_new_mean": idata["predictions"]["f"].values.mean((0, 1)),
        "log_evidence": np.atleast_1d(idata["fit"]["log_evidence"].values),
    }


def main(folder: Path) -> None:
    """Write the containers into a folder, and beside them the numbers that they gave."""
    fits, numbers = make_fits(), {}
    for name, idata in fits.items():
        idata.to_netcdf(str(folder / f"{name}.nc"))
        found = numbers_of(idata, X_NEW, RANDOM_SEED)
        numbers[name] = {quantity: np.asarray(values).tolist() for quantity, values in found.items()}
    made = {"X_new": X_NEW.tolist(), "random_seed": RANDOM_SEED, "version": bgp.__version__, "fits": numbers}
    (folder / "predictions.json").write_text(json.dumps(made, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
