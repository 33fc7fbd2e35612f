"""
Is the approximation good enough?
=================================

A hard problem for TAP: few cases, little noise, a large prior variance. The fit says how good it is; a corrected
prediction removes most of the error; NUTS on the same model, with all latent values, has the exact answer.
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import bayesgp_mf as bgp
from bayesgp_mf.pymc import latent_conditional, latent_model

rng = np.random.default_rng(3)
X = rng.normal(size=(20, 2))
label = (X[:, 0] > 0).astype(int)
new = rng.normal(size=(25, 2))
kernel, likelihood = bgp.kernels.Gaussian(2.0, 25.0), bgp.Probit(0.1)

# %%
# What the fit says of itself, in a sentence and in a table.

idata = bgp.fit(X, label, kernel, likelihood, random_seed=1)
quality = bgp.diagnostics.quality(idata)
print(quality.sentence)
tap, corrected = (
    bgp.predict(idata, new, draws=False, corrected=corrected)["predictions"]["p"].values for corrected in (False, True)
)

# %%
# The same model in PyMC, with nothing approximated but by the number of draws.

draws = 1500  # tests: 20
with pm.Model():
    latent_model(X, label, 25.0 * pm.gp.cov.ExpQuad(2, ls=2.0), likelihood)
    sampled = pm.sample(draws, tune=draws // 2, chains=2, cores=1, target_accept=0.95, random_seed=1, progressbar=False)
    latent_conditional("f_new", new)
    drawn = pm.sample_posterior_predictive(sampled, var_names=["f_new"], random_seed=2, progressbar=False)
f = drawn["posterior_predictive"]["f_new"].values
nuts = likelihood.predict_proba(f, np.zeros_like(f)).mean(axis=(0, 1))

# %%
# TAP is off by up to 0.03. With the correction the largest error is 0.01, which is about the error of NUTS itself.

fig, ax = plt.subplots(figsize=(5.2, 3.8))
ax.axhline(0.0, color="k", linewidth=0.8)
ax.plot(nuts, tap - nuts, "o", label="TAP")
ax.plot(nuts, corrected - nuts, "^", label="TAP, corrected")
ax.set(title="Error of TAP's probabilities against NUTS", xlabel="probability by NUTS", ylabel="difference")
ax.legend()
fig.tight_layout()
plt.show()
