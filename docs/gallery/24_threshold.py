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
from bayesgp_mf.kernels import Bias, Gaussian, Linear

TRIALS = 80  # tests: 30
LAPSE, LEVEL = 0.03, 0.75
levels, pitches = np.linspace(0.0, 1.0, 21), np.linspace(0.0, 1.0, 9)
signals = pd.DataFrame({"level": np.tile(levels, 9), "pitch": np.repeat(pitches, 21)})
beyond = ndtri((LEVEL - LAPSE) / (1.0 - 2.0 * LAPSE))  # of the latent value, at the threshold


def middle(pitch):
    return 0.35 + 1.2 * (pitch - 0.4) ** 2


def heard(signal, rng):
    louder = (signal["level"] - middle(signal["pitch"])) / 0.1 + rng.standard_normal() > 0
    return bool(louder != (rng.random() < LAPSE))


kernel = Linear(100.0, columns="level") + Gaussian(0.5, columns="pitch") + Bias(25.0)
options = {"candidates": signals, "about": "level", "level": LEVEL, "random_seed": 1}
experiments = {}
for way in ("asked", "at random"):
    rng = np.random.default_rng(3)
    experiment = experiments[way] = bgp.design.Experiment(kernel, bgp.Probit(flip=LAPSE), **options)
    for _ in range(TRIALS):
        signal = experiment.ask() if way == "asked" else signals.iloc[rng.integers(len(signals))]
        experiment.tell(signal, heard(signal, rng))

# %%
# Questions gather along the threshold, and the line where the posterior mean crosses it follows the truth.

grid = pd.DataFrame({"level": np.tile(np.linspace(0, 1, 60), 60), "pitch": np.repeat(np.linspace(0, 1, 60), 60)})
fig, axes = plt.subplots(2, 1, figsize=(5.3, 6.0), sharex=True)
fig.suptitle(f"{TRIALS} trials: heard three times in four")
for ax, (way, experiment) in zip(axes, experiments.items(), strict=True):
    for answers, marker, name in ((experiment.y, "o", "heard"), (~experiment.y, "x", "not heard")):
        ax.plot(experiment.X["pitch"][answers], experiment.X["level"][answers], marker, color="0.4", label=name)
    mean = experiment.posterior.latent_mean(grid).reshape(60, 60).T
    ax.contour(mean, levels=[beyond], colors="C0", extent=(0, 1, 0, 1))
    ax.plot(pitches, middle(pitches) + 0.1 * beyond, "--", color="C1", label="the truth")
    ax.set(ylabel="level", title=way, ylim=(-0.03, 1.03))
axes[0].legend()
axes[1].set_xlabel("pitch")
fig.tight_layout()
plt.show()
