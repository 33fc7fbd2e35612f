"""
Many models, and one answer from all
====================================

Base kernels grow into what the labels ask for: a wave along the first input with a bend along the second. What is
predicted hardly depends on the model any more, once it has both; and an average of all has not to choose.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

rng = np.random.default_rng(0)
X = np.column_stack([rng.uniform(0.0, 5.0, 200), rng.uniform(-2.0, 2.0, 200)])
f = 2.0 * np.sin(2.0 * np.pi * X[:, 0]) + 1.5 * (X[:, 1] ** 2 - 1.3)
y = f + rng.normal(size=200) > 0

base = {
    "wave": bgp.kernels.Periodic(1.0, period=1.1, columns=[0]),
    "bend": bgp.kernels.Gaussian(1.0, columns=[1]),
    "line": bgp.kernels.Linear(),
}
models = bgp.explore(X, y, base, grow=True, most=10, draws=100, random_seed=1, progress=False)
print("found:", models.found)
models.table.drop(columns=["parameters", "seconds"]).round(2)

# %%
# The probability of a new case in each model, the best by leave-one-out at the top.

new = np.array([[1.25, 0.6]])
fig, ax = plt.subplots(figsize=(5.2, 3.6))
bgp.plots.plot_models(models, new, ax=ax).set(title="The same case in each model")
fig.tight_layout()
plt.show()

# %%
# Stacked: the leave-one-out predictions of the average are at least as good as those of the best model.

stacked = models.combine(random_seed=1)
probability = bgp.predict(stacked, new, draws=False)["predictions"]["p"].values
print(f"stacked: elpd {float(stacked['fit']['loo_i'].sum()):.1f}, probability {probability[0]:.2f}")
