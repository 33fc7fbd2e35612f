"""
What would further cases bring?
===============================

Pima's first 100 women are fitted, and the plan says what 100 and 300 more would bring. Then they come.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Integrate, LogNormal

pima = bgp.datasets.load_pima()
X, y = np.concatenate([pima.X, pima.X_test]), np.concatenate([pima.y, pima.y_test])
kernel = bgp.kernels.Gaussian(3.0) + bgp.kernels.Bias()
priors = {"gaussian_lengthscale": LogNormal(1.0, 1.0), "gaussian_variance": LogNormal(0.0, 1.0)}
options = {"priors": priors, "fixed": ["bias_variance"], "draws": 50, "random_seed": 1}


def score(idata):
    """Return the mean log score of the last 132 women."""
    p = bgp.predict(idata, X[400:], draws=False)["predictions"]["p"].values
    return np.mean(np.log(np.where(y[400:] == 1, p, 1.0 - p)))


first = bgp.fit(X[:100], y[:100], kernel, hyper=Integrate(), **options)
sizes = [0, 100, 300]
plan = bgp.plan(first, sizes, X=X[100:], test=132, replicas=40, random_seed=1, progress=False)
print(plan)

# %%
# The band has eight of ten results, if the model is right and later cases are like the first. Here they are not: with
# the first 100 alone, 0 further cases, the last 132 women are predicted worse than leave-one-out had it. What further
# cases brought, a few hundredths, is what was planned.

scores = plan.table.xs("log_score", level="quantity")
measured = [score(bgp.fit(X[: 100 + k], y[: 100 + k], kernel, hyper="evidence", **options)) for k in sizes]

fig, ax = plt.subplots(figsize=(5.2, 2.8))
ax.fill_between(sizes, scores["lower"], scores["upper"], color="0.85", label="band of 80 %")
ax.plot(sizes, scores["mean"], label="plan")
ax.plot(sizes, measured, "o", label="what happened")
ax.set(xlabel="further cases", ylabel="log score, nats", title="Planned with 100 cases, and measured")
ax.set(ylim=(-0.62, -0.2))
ax.legend(loc="upper center", ncols=3)
fig.tight_layout()
plt.show()
