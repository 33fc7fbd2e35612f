"""Record thirty random intercepts as PyMC's NUTS finds them: ``python -m tests.reference.record_groups``, a minute."""

from __future__ import annotations

import json

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

from tests.reference.groups import INTERCEPT, NOISE, PATH, SLOPE, table


def sample(likelihood: str) -> dict[str, object]:
    """Return mean, standard deviation and Monte-Carlo error of the mean of each intercept."""
    frame, y = table(likelihood)
    codes, _ = pd.factorize(frame["clinic"], sort=True)
    with pm.Model():
        intercept = pm.Normal("intercept", 0.0, np.sqrt(INTERCEPT), shape=30)
        slope = pm.Normal("slope", 0.0, np.sqrt(SLOPE))
        f = intercept[codes] + slope * frame["dose"].to_numpy()
        if likelihood == "gaussian":
            pm.Normal("y", f, np.sqrt(NOISE), observed=y)
        else:
            pm.Bernoulli("y", pm.math.invprobit(f), observed=y)
        idata = pm.sample(5000, tune=1000, chains=4, cores=1, random_seed=21, progressbar=False)
    said = az.summary(idata, var_names=["intercept"], kind="all", round_to="none")
    return {
        "mean": said["mean"].tolist(),
        "sd": said["sd"].tolist(),
        "mcse_mean": said["mcse_mean"].tolist(),
        "largest_r_hat": float(said["r_hat"].max()),
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps({name: sample(name) for name in ("gaussian", "probit")}, indent=1) + "\n")
