"""
Counts with an exposure
=======================

Accidents per month on a road whose traffic changes. The model is of the rate for one million vehicles: the logarithm
of the traffic is an ``offset`` of the latent function. The counts vary more than a Poisson distribution allows, so
there is a second likelihood.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

rng = np.random.default_rng(3)
month = np.arange(72.0)
traffic = 2.0 + 0.02 * month + np.where(month > 40, 1.5, 0.0)  # million vehicles; a by-pass was closed
rate = np.exp(1.5 + 0.7 * np.sin(2.0 * np.pi * month / 12.0) - 0.025 * month)
accidents = rng.poisson(rate * traffic * rng.gamma(4.0, 0.25, 72))

# %%
# A period of a year, and a slow change. Two likelihoods, tuned by the evidence in one search from this kernel. (From
# other starts Poisson's law takes what counts vary more than it allows for a function that changes every month.)

kernel = bgp.kernels.Gaussian(24.0) + bgp.kernels.Periodic(1.5, period=12.0) + bgp.kernels.Bias(4.0)
fits = {
    type(likelihood).__name__: bgp.fit(
        month[:, None], accidents, kernel, likelihood, hyper=bgp.hyper.Evidence(starts=1),
        fixed={"periodic_period", "bias_variance"}, offset=np.log(traffic), random_seed=1, draws=200,
    )
    for likelihood in (bgp.Poisson(), bgp.NegativeBinomial(5.0))
}  # fmt: skip
for name, idata in fits.items():
    print(f"{name:17} log evidence {float(idata['fit']['log_evidence']):.1f}")

# %%
# Counts to be expected in the next year, under the traffic of the last month.

ahead = np.arange(84.0)
known = np.concatenate([traffic, np.full(12, traffic[-1])])
fig, axes = plt.subplots(2, 1, figsize=(5.2, 6.2), sharey=True)
fig.suptitle("Accidents a month, with 90 % intervals of new counts")
for ax, (name, idata) in zip(axes, fits.items(), strict=True):
    said = bgp.predict(idata, ahead[:, None], offset=np.log(known), quantiles=[0.05, 0.95], draws=False)["predictions"]
    low, high = said["y_quantile"].values.T
    ax.fill_between(ahead, low, high, step="mid", alpha=0.3, label="90 % of new counts")
    ax.plot(ahead, said["y_mean"], label="mean")
    ax.plot(month, accidents, "k.", label="seen")
    ax.set(title=name, xlabel="month", ylabel="accidents")
axes[0].legend(loc="upper right")
fig.tight_layout()
plt.show()
