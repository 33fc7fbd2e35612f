"""
Against the truth
=================

A fit takes milliseconds, and samples of the same model minutes. Held against them once, it need not be doubted again:
here TAP's approximation is as good as the samples, and Laplace's is not.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

toy = bgp.datasets.make_toy(bgp.kernels.Matern32(1.0, 4.0), n=40, random_seed=3)
X_new = np.random.default_rng(1).normal(size=(30, toy.X.shape[1]))
draws = 1000  # tests: 60
kernel, likelihood = bgp.kernels.Matern32(1.0, 4.0), bgp.Probit()
fits = {
    method: bgp.fit(toy.X, toy.y, kernel, likelihood, method=method, draws=4000, random_seed=1)
    for method in ("tap", "laplace")
}

# %%
# The same model, with nothing approximated, is sampled by PyMC. The verdict names what differs by more than is allowed.

validation = bgp.validate(fits["tap"], X_new=X_new, draws=draws, tune=draws, random_seed=1, progress=False)
print(validation)

# %%
# The samples are of the model, not of one fit of it. So Laplace's method is held against the same ones.

fits["laplace"] = bgp.predict(fits["laplace"], X_new, draws=False)
agreements = {
    "TAP": validation.agreement,
    "Laplace": bgp.diagnostics.agreement(fits["laplace"], validation.reference),
}
print(agreements["Laplace"])

# %%
# Means of the latent values and probabilities of new cases, beside the samples; on the line they are equal.

fig, axes = plt.subplots(2, 2, figsize=(5.2, 5.0))
fig.suptitle("TAP and Laplace's method against samples of the model")
for row, (title, agreement) in zip(axes, agreements.items(), strict=True):
    for ax, name in zip(row, ("mean", "probability"), strict=True):
        compared = getattr(agreement, name)
        ax.axline((0.5, 0.5), slope=1.0, color="0.7")
        ax.plot(compared.second, compared.first, ".")
        ax.set(xlabel=f"samples: {name}", ylabel=f"{title}: {name}")
fig.tight_layout()
plt.show()
