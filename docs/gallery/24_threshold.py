"""
A threshold, found by asking
============================

How strong must a signal be to be heard three times in four, at each pitch? Each trial is one button, pressed by mistake
at times. Asking where the answer tells most needs far fewer trials than asking at random.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import ndtri

import bayesgp_mf as bgp

TRIALS = 80  # tests: 30
LAPSE, LEVEL = 0.03, 0.75
levels, pitches = np.linspace(0.0, 1.0, 21), np.linspace(0.0, 1.0, 9)
signals = pd.DataFrame({"level": np.tile(levels, 9), "pitch": np.repeat(pitches, 21)})
beyond = ndtri((LEVEL - LAPSE) / (1.0 - 2.0 * LAPSE))  # of the latent value, at the threshold


def middle(pitch):
    return 0.35 + 1.2 * (pitch - 0.4) ** 2


def trial(signal, rng):
    heard = (signal["level"] - middle(signal["pitch"])) / 0.1 + rng.standard_normal() > 0
    return bool(heard != (rng.random() < LAPSE))


by_pitch = bgp.kernels.Gaussian(0.5, 1.0, columns="pitch")
kernel = bgp.kernels.Linear(100.0, columns="level") + by_pitch + bgp.kernels.Bias(25.0)
options = {"candidates": signals, "about": "level", "level": LEVEL, "random_seed": 1}
experiments = {way: bgp.design.Experiment(kernel, bgp.Probit(flip=LAPSE), **options) for way in ("asked", "at random")}
for way, experiment in experiments.items():
    rng = np.random.default_rng(3)
    for _ in range(TRIALS):
        signal = experiment.ask() if way == "asked" else signals.iloc[rng.integers(len(signals))]
        experiment.tell(signal, trial(signal, rng))

# %%
# Questions gather along the threshold, and the line where the posterior mean crosses it follows the truth.

axis = np.linspace(0.0, 1.0, 60)
grid = pd.DataFrame({"level": np.repeat(axis, 60), "pitch": np.tile(axis, 60)})
fig, axes = plt.subplots(2, 1, figsize=(5.3, 6.0), sharex=True)
fig.suptitle(f"{TRIALS} trials: heard three times in four")
for ax, (way, experiment) in zip(axes, experiments.items(), strict=True):
    for answer, marker, name in ((True, "o", "heard"), (False, "x", "not heard")):
        ax.plot("pitch", "level", marker, data=experiment.X[experiment.y == answer], color="0.4", label=name)
    ax.contour(axis, axis, experiment.posterior.latent_mean(grid).reshape(60, 60), levels=[beyond], colors="C0")
    ax.plot(pitches, middle(pitches) + 0.1 * beyond, "--", color="C1", label="the truth")
    ax.set(xlabel="pitch", ylabel="level", title=way, xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
axes[0].plot([], [], "C0", label="the fit")  # a contour has no entry of its own
axes[0].legend(ncols=2)
fig.tight_layout()
plt.show()
