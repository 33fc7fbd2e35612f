"""
A stream whose rule changes
===========================

Cases come in batches, and each is seen once. Halfway the rule behind the labels turns by a right angle. A stream
with ``forget=1000`` gives a case half its weight after 1000 others, and recovers soon; one that forgets nothing takes
far longer.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

cases, batch = 12_000, 250  # tests: 1_000, 250
rng = np.random.default_rng(5)
X = rng.normal(size=(cases, 2))
first, second = np.sin(2.0 * X[:, 0]) + X[:, 1], np.sin(2.0 * X[:, 1]) - X[:, 0]
rule = np.where(np.arange(cases) < cases // 2, first, second)
y = np.where(rule + 0.5 * rng.normal(size=cases) > 0, "up", "down")

# %%
# ``update`` returns the stream; its log score has each batch under what was known before it.

kernel = bgp.kernels.Matern32(lengthscale=1.0, variance=3.0)
score, at = {}, np.arange(batch, cases + 1, batch)
for forget in (None, 4000, 1000):
    stream = bgp.streams.Stream(kernel, bgp.Probit(), budget=100, classes=("down", "up"), forget=forget, random_seed=1)
    name = "forgets nothing" if forget is None else f"half-life {forget}"
    score[name] = []
    for start in range(0, cases, batch):
        new, label = X[start : start + batch], y[start : start + batch]
        p = stream.predict_proba(new) if start else np.full(len(new), 0.5)
        score[name].append(bgp.diagnostics.mean_log_score(label == "up", p))
        stream = stream.update(new, label)
print(stream)

# %%
# The stream keeps the score itself, and a line draws it.

fig, ax = plt.subplots(figsize=(5.2, 3.8), layout="constrained")
fig.suptitle("Log score of a stream with half-life 1000, by plot_stream")
bgp.plots.plot_stream(stream, ax=ax)
plt.show()

# %%
# All three together.

fig, ax = plt.subplots(figsize=(5.2, 3.8))
for name, values in score.items():
    ax.plot(at, values, label=name)
ax.axvline(cases / 2, color="k", linestyle=":", label="the rule turns")
ax.set(title="Log score of each batch before it is learned from", xlabel="cases seen", ylabel="mean log score, nats")
ax.legend(loc="lower right")
fig.tight_layout()
plt.show()
