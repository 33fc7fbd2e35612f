"""
Cavity, reaction, evidence
==========================

TAP replaces the posterior of a Gaussian process by a Gaussian one. It asks each case the same question: what do all
*other* cases say of your latent value, and what does your own label add to that?
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import bayesgp_mf as bgp

x = np.array([-2.0, -1.2, -0.5, 0.3, 0.9, 1.6])[:, None]
t = np.array([-1, -1, 1, -1, 1, 1])  # the third label is not what its neighbours say
kernel, likelihood = bgp.kernels.Gaussian(1.5, 4.0), bgp.Probit(0.3)
gram = kernel.gram(x)
tap = bgp.solve(gram, t, likelihood)

# %%
# The cavity
# ----------
#
# What the others say of a case is its *cavity*, a Gaussian. Times the probability of its own label it is the
# *tilted* distribution, which is not Gaussian. TAP keeps its mean and variance: the Gaussian posterior of the case.
# Above a label that was expected, below one that was not; it pulls its latent value towards its own side.

f = np.linspace(-7.0, 7.0, 400)
fig, axes = plt.subplots(2, 1, figsize=(5.2, 6.4), sharey=True)
fig.suptitle("Cavity, label and posterior of two cases")
for ax, case in zip(axes, (4, 2), strict=True):
    cavity = norm(tap.cavity.mean[case], np.sqrt(tap.cavity.variance[case]))
    label = norm.cdf(t[case] * f / np.sqrt(0.3))
    tilted = cavity.pdf(f) * label
    tilted /= tilted.sum() * (f[1] - f[0])
    mean = np.sum(f * tilted) * (f[1] - f[0])
    sd = np.sqrt(np.sum((f - mean) ** 2 * tilted) * (f[1] - f[0]))
    ax.fill_between(f, cavity.pdf(f), color="C0", alpha=0.3, label="cavity: what the others say")
    ax.plot(f, label * 0.3, "k:", label="probability of the label (scaled)")
    ax.plot(f, tilted, "C1", label="tilted: both")
    ax.plot(f, norm(mean, sd).pdf(f), "C2--", label="TAP's Gaussian")
    ax.set(title=f"input {x[case, 0]}, label {t[case]:+d}", xlabel="latent value f", ylabel="density", ylim=(0.0, 1.35))
axes[0].legend(loc="upper left")
fig.tight_layout()
plt.show()

# %%
# The reaction
# ------------
#
# The others saw this case, too, when they settled. What it hears from them is in part its own echo. TAP takes that
# *reaction* off; naive mean field does not, and its means are off by more. The judge is exact integration.

exact = bgp.solve(gram, t, likelihood, method="exact")
width = 0.38
fig, ax = plt.subplots(figsize=(5.2, 3.6))
for shift, method in ((-width / 2, "tap"), (width / 2, "naive")):
    off = gram @ (bgp.solve(gram, t, likelihood, method=method).alpha - exact.alpha)
    ax.bar(np.arange(6) + shift, off, width, label={"tap": "TAP", "naive": "naive, without the reaction"}[method])
ax.axhline(0.0, color="k", linewidth=0.8)
ax.set(title="Error of the posterior mean of each case", xlabel="case", ylabel="mean less the exact one")
ax.legend()
fig.tight_layout()
plt.show()

# %%
# The evidence
# ------------
#
# The same quantities give the log probability of all labels together, by which length scales are chosen. TAP's
# curve lies on the exact one; Laplace's is too low at short length scales, and the naive one at long ones.

lengths = np.geomspace(0.3, 8.0, 18)
fig, ax = plt.subplots(figsize=(5.2, 3.6))
styles = {"exact": "k-", "TAP": "C0o", "Laplace": "C1s", "naive": "C3^"}
for name, style in styles.items():
    values = []
    for length in lengths:
        found = bgp.solve(bgp.kernels.Gaussian(length, 4.0).gram(x), t, likelihood, method=name.lower())
        values.append(found.evidence.value)
    ax.plot(lengths, values, style, markersize=4, label=name)
ax.set(title="Log evidence against the length scale, four methods", xlabel="length scale", ylabel="log evidence, nats")
ax.legend()
fig.tight_layout()
plt.show()
