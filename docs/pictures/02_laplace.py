"""
Where Laplace's approximation fails
===================================

Laplace puts a Gaussian at the highest point of the posterior. With a label that says only on which side of zero the
function is, the posterior is skewed, and its highest point is not where its mass is. TAP matches mean and variance
instead.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

import bayesgp_mf as bgp

# %%
# One case, label +1, under a small and a large prior variance. The larger it is, the further Laplace's Gaussian
# stays behind.

fig, axes = plt.subplots(2, 1, figsize=(5.2, 6.4))
fig.suptitle("Posterior of one latent value: exact, TAP and Laplace")
for ax, variance in zip(axes, (1.0, 25.0), strict=True):
    f = np.linspace(-1.2, 3.2, 400) * np.sqrt(variance)
    step = f[1] - f[0]
    exact = norm.pdf(f, 0.0, np.sqrt(variance)) * norm.cdf(f)
    exact /= exact.sum() * step
    mean = np.sum(f * exact) * step
    sd = np.sqrt(np.sum((f - mean) ** 2 * exact) * step)
    mode = brentq(lambda f, v: norm.pdf(f) / norm.cdf(f) - f / v, 0.0, 10.0, args=(variance,))
    hazard = norm.pdf(mode) / norm.cdf(mode)
    laplace_sd = 1.0 / np.sqrt(1.0 / variance + hazard * (hazard + mode))
    ax.fill_between(f, exact, color="0.7", label="exact")
    ax.plot(f, norm.pdf(f, mean, sd), "C0", label=f"TAP, P(+1) = {norm.cdf(mean / np.sqrt(1 + sd**2)):.2f}")
    said = norm.cdf(mode / np.sqrt(1 + laplace_sd**2))
    ax.plot(f, norm.pdf(f, mode, laplace_sd), "C1--", label=f"Laplace, P(+1) = {said:.2f}")
    ax.set(title=f"prior variance {variance:g}", xlabel="latent value f", ylabel="density")
    ax.legend(loc="upper right")
fig.tight_layout()
plt.show()

# %%
# Thirty cases: the error of the log evidence and of probabilities, against the prior variance. The judge is exact
# integration. With a variance below one both do well. At thirty Laplace's evidence is off by 0.6 nats, and at a
# hundred one of its probabilities by more than a quarter.

toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=30, random_seed=2)
t, new = 2 * toy.y - 1, np.random.default_rng(0).normal(size=(40, toy.X.shape[1]))
variances = np.geomspace(0.3, 100.0, 6)  # tests: 0.3, 100.0, 2
evidence, probability = {"tap": [], "laplace": []}, {"tap": [], "laplace": []}
for variance in variances:
    kernel = bgp.kernels.Gaussian(1.0, variance)
    problem = bgp.Problem(kernel.gram(toy.X), t, bgp.Probit())
    found = {method: bgp.solve(problem.gram, t, bgp.Probit(), method=method) for method in ("exact", *evidence)}
    p = {name: bgp.Posterior(kernel, toy.X, problem, one).predict_proba(new) for name, one in found.items()}
    for method in evidence:
        evidence[method].append(found[method].evidence.value - found["exact"].evidence.value)
        probability[method].append(np.abs(p[method] - p["exact"]).max())

fig, (above, below) = plt.subplots(2, 1, figsize=(5.2, 6.4))
fig.suptitle("Errors of TAP and Laplace against the prior variance")
for method, name in (("tap", "TAP"), ("laplace", "Laplace")):
    above.semilogx(variances, evidence[method], "o-", label=name)
    below.loglog(variances, probability[method], "o-", label=name)
above.set(xlabel="prior variance", ylabel="error of the log evidence, nats")
below.set(xlabel="prior variance", ylabel="largest error of a probability")
above.legend()
fig.tight_layout()
plt.show()
