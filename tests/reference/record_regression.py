"""Record scikit-learn's optimum on both tables: ``python -m tests.reference.record_regression``, where it is installed.

Its model is ConstantKernel * RBF + WhiteKernel, whose White variance is the noise; L-BFGS-B goes from one start and
eight random ones, with gradients down to 1e-9.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import scipy
import sklearn
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from tests.reference.regression_tables import tables


def optimiser(objective, start, bounds):
    """Minimise to the last digit that there is."""
    found = minimize(
        objective, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}
    )
    return found.x, found.fun


def main():
    """Write the record beside this file."""
    record = {
        "made_by": "python -m tests.reference.record_regression",
        "versions": {"scikit-learn": sklearn.__version__, "numpy": np.__version__, "scipy": scipy.__version__},
        "tables": {},
    }
    for name, (X, y) in tables().items():
        wide = (1e-4, 1e4)
        kernel = ConstantKernel(1.0, wide) * RBF(1.0, wide) + WhiteKernel(0.5, wide)
        model = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=optimiser, n_restarts_optimizer=8, random_state=1)
        model.fit(X, y)
        found = model.kernel_
        record["tables"][name] = {
            "log_evidence": float(model.log_marginal_likelihood_value_),
            "variance": float(found.k1.k1.constant_value),
            "lengthscale": float(found.k1.k2.length_scale),
            "noise_variance": float(found.k2.noise_level),
        }
    Path(__file__).with_name("regression_optima.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
