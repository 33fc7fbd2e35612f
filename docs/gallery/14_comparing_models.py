"""
Comparing models
================

Four kernels on the Pima data, by two measures that come with every fit: the log evidence, and the leave-one-out log
density. ``bgp.compare`` compares both, with their errors.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

pima = bgp.datasets.load_pima()
bias = bgp.kernels.Bias()
kernels = {
    "linear": bgp.kernels.Linear(0.1) + bias,
    "Gaussian": bgp.kernels.Gaussian(3.0) + bias,
    "Gaussian, a length scale each": bgp.kernels.Gaussian(np.full(7, 5.0)) + bias,
    "Matérn 1/2": bgp.kernels.Matern12(3.0) + bias,
}
priors = {"gaussian_lengthscale": bgp.hyper.LogNormal(np.log(5.0), 1.0)}
fits = {
    name: bgp.fit(
        pima.X, pima.y, kernel, hyper="evidence", fixed={"bias_variance"}, random_seed=1, draws=200,
        priors={key: prior for key, prior in priors.items() if key in kernel.params},
    )
    for name, kernel in kernels.items()
}  # fmt: skip

# %%
# The table has the evidences with what is left out of them, and ArviZ's comparison by leave-one-out.

compared = bgp.compare(fits)
print(compared.sentence)
compared.table[["log_evidence", "log_bayes_factor", "elpd", "se", "elpd_difference", "dse"]].round(1)

# %%
# ``elpd`` is the leave-one-out log density. A difference of less than about two of its standard errors decides
# nothing: here all but the last are equals.

table = compared.table.sort_values("elpd")
fig, (above, below) = plt.subplots(2, 1, figsize=(5.2, 5))
fig.suptitle("Four kernels compared by evidence and by leave-one-out")
above.plot(table["log_evidence"], table.index, "o")
above.set(xlabel="log evidence, nats", ylabel="kernel")
below.errorbar(table["elpd_difference"], table.index, xerr=2.0 * table["dse"], fmt="o", capsize=3)
below.axvline(0.0, color="k", linestyle=":")
below.set(xlabel="elpd less the best, ± 2 se", ylabel="kernel")
fig.tight_layout()
plt.show()
