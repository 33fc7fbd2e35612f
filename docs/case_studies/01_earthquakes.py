"""
Earthquakes: from a question to a decision
==========================================

An agency sends a rescue team to each major earthquake. It is the end of 2006, and the agency must say how many teams
it wants to have ready in each of the next twelve years. A team costs 1 a year. If an earthquake comes and all teams
are taken, it hires one in a hurry, for 6. How many teams?

What is known are the numbers of earthquakes of magnitude 7 or more in the world, year by year from 1900 (U.S.
Geological Survey). The years from 2007 on are kept for the end. The steps are those of :doc:`the workflow
</workflow>`, which says more of each. All fits are containers of ArviZ.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp

counts = """
13 14 8 10 16 26 32 27 18 32 36 24 22 23 22 18 25 21 21 14 8 11 14 23 18 17 19 20 22 19 13 26 13 14
22 24 21 22 26 21 23 24 27 41 31 27 35 26 28 36 39 21 17 22 17 19 15 34 10 15 22 18 15 20 15 22 19 16
30 27 29 23 20 16 21 21 25 16 18 15 18 14 10 15 8 15 6 11 8 7 18 16 13 12 13 20 15 16 12 18 15 16 13
15 16 11 11 18 12 17 24 20 16 19 12 19 16 7 17
"""
counts = np.array(counts.split(), dtype=int)
years = 1900.0 + np.arange(len(counts))[:, None]
X, y = years[:107], counts[:107]
X_new, y_new = years[107:], counts[107:]

# %%
# Before the data
# ---------------
#
# A count is Poisson, and the log of its rate is a function of the year: a constant and a smooth part. Before we
# looked at the table, we would have said that there are between 5 and 40 such earthquakes a year. ``priors.suggest``
# makes priors of that.

kernel = bgp.kernels.Gaussian() + bgp.kernels.Bias()
priors = bgp.priors.suggest(X, kernel, bgp.Poisson(), between=(5, 40))
print(priors)

# %%
# What do these priors say? Counts that are :doc:`drawn from the model </auto_gallery/16_before_data>` tell.


def before(**offset):
    """Draw counts from the model and its priors."""
    options = {"priors": priors, "draws": 500, "random_seed": 1}
    prior = bgp.prior_predictive(X, kernel, bgp.Poisson(), **options, **offset)
    return prior["prior_predictive"]["y"].values.ravel()


shares = [0.05, 0.5, 0.95]
drawn = before()
print("drawn:", np.quantile(drawn, shares))
print("observed:", np.quantile(y, shares))

# %%
# **This fails.** The model expects one earthquake a year. The prior of a Gaussian process has mean zero, and on the
# log scale zero is a rate of one. The sentences of the priors say it too: the middle of 5 and 40, which is 14, is for
# ``offset``, which is added to the log rate. It is the same for all years.

offset = np.full(len(X), np.log(14.1))
offset_new = np.full(len(X_new), np.log(14.1))
centred = before(offset=offset)
print("drawn with offset:", np.quantile(centred, shares))

fig, ax = plt.subplots(figsize=(5.2, 2.8))
bins = np.arange(0, 61, 2)
ax.hist(drawn, bins, density=True, alpha=0.5, label="drawn, no offset")
ax.hist(centred, bins, density=True, alpha=0.5, label="drawn, offset log(14.1)")
ax.hist(y, bins, density=True, histtype="step", color="k", label="observed")
ax.set(xlabel="earthquakes in a year", ylabel="density", ylim=(0.0, 0.15))
ax.set(title="Counts before the data, and observed")
ax.legend()
fig.tight_layout()
plt.show()

# %%
# Now the middle is right. The counts spread wider than from 5 to 40, since the variances are not known either. That is
# no harm: the data will say.
#
# A first model, and the checks that it fails
# -------------------------------------------
#
# The simplest model has one rate for all years: the constant alone. Hyperparameters are averaged over
# (``hyper="integrate"``). ``misfit`` predicts each year from the others, and looks how many counts are in their
# interval.


def fit(kernel, likelihood=bgp.Poisson(), **more):
    """Fit a model of the counts, averaged over hyperparameters with suggested priors."""
    priors = bgp.priors.suggest(X, kernel, likelihood, between=(5, 40)) | more
    options = {"hyper": "integrate", "offset": offset, "progress": False}
    return bgp.fit(X, y, kernel, likelihood, priors=priors, random_seed=1, **options)


fits = {"constant": fit(bgp.kernels.Bias())}
print(bgp.diagnostics.misfit(fits["constant"]).sentence)

# %%
# **This fails.** Counts vary more than a Poisson distribution with one rate allows. The usual remedy is a
# :doc:`negative binomial </counts>`, whose ``dispersion`` says by how much: the smaller, the more. Its prior has the
# median 20, and nine in ten are within a factor of five.

dispersion = bgp.hyper.LogNormal(np.log(20.0), 1.0)
likelihood = bgp.NegativeBinomial(20.0)
fits["dispersed"] = fit(bgp.kernels.Bias(), likelihood, dispersion=dispersion)
found = bgp.diagnostics.misfit(fits["dispersed"])
print(f"90 % intervals hold {found.coverage:.0%} of the years. {found.sentence}")

# %%
# So it is mended? The intervals are now wide enough, but they know nothing of time. If one year had many earthquakes,
# did the next one too? A posterior predictive check asks that of the data and of draws from the model.


def neighbours(y):
    """Return the correlation of each year with the next one."""
    z = y - y.mean(axis=-1, keepdims=True)
    return (z[..., 1:] * z[..., :-1]).sum(axis=-1) / (z**2).sum(axis=-1)


def check(idata):
    """Return that correlation in draws from the model."""
    return neighbours(idata["posterior_predictive"]["y"].values.reshape(-1, len(y)))


replicated = check(fits["dispersed"])
print(f"data: {neighbours(y):.2f}")
print(f"the largest of {len(replicated)} draws: {replicated.max():.2f}")

# %%
# **This fails as well.** Years with many earthquakes come together, and no draw from the model looks like that.
#
# The model is mended
# -------------------
#
# Now the rate may move. How it moves we do not know: smoothly (`Gaussian`) or from one year to the next (`Matern12`).
# We take both.

fits["smooth"] = fit(bgp.kernels.Gaussian() + bgp.kernels.Bias())
fits["rough"] = fit(bgp.kernels.Matern12() + bgp.kernels.Bias())

fig, axes = plt.subplots(2, 1, figsize=(5.2, 4.6), sharex=True)
fig.suptitle("Correlation of neighbouring years, by model and in the data")
bins = np.linspace(-0.4, 0.9, 53)
for ax, names in zip(axes, (["constant", "dispersed"], ["smooth", "rough"]), strict=True):
    for name in names:
        ax.hist(check(fits[name]), bins, density=True, alpha=0.5, label=name)
    ax.axvline(neighbours(y), color="k", label="data")
    ax.set(ylabel="density")
    ax.legend()
axes[1].set(xlabel="correlation")
fig.tight_layout()
plt.show()

# %%
# The draws now look like the data. Each year is predicted from all others once more. If a model is right, a predicted
# quantile has as many of the counts below it as it says, and the curve is on the diagonal.

fig, ax = plt.subplots(figsize=(5.2, 4.0))
bgp.plots.plot_calibration(fits["rough"], ax=ax)
ax.get_lines()[-1].set_label("rough")
levels = np.linspace(0.0, 1.0, 101)
curve = bgp.diagnostics.pit_curve(bgp.diagnostics.predicted(fits["constant"]), levels)
ax.plot(levels, curve.observed, color="C1", label="constant")
ax.set(title="Calibration, each year predicted from the others")
ax.legend()
fig.tight_layout()
plt.show()

for name in ("smooth", "rough"):
    found = bgp.diagnostics.misfit(fits[name])
    print(f"{name}: 90 % intervals hold {found.coverage:.0%}. {found.sentence}")

# %%
# Which is better? ``elpd`` is the log probability, in nats, of all years, each predicted from the others. Smooth and
# rough differ by less than the standard error ``dse``. The constant models are far behind.

compared = bgp.compare(fits)
compared.table[["elpd", "elpd_difference", "dse"]].round(1)

# %%
# Is it computed right?
# ---------------------
#
# We go on with both, and check the computation on the rough one. :doc:`calibrate </auto_gallery/17_calibration>`
# draws tables from the model, at our own years, and fits each as we did. If posteriors are right, the truth has a
# uniform rank among their draws: ranks have the mean 0.5 and the spread 1, and the chance that they are so far off by
# accident is not tiny. (Here the tables are few, so that it takes half a minute.)

kernel = bgp.kernels.Matern12() + bgp.kernels.Bias()
priors = bgp.priors.suggest(X, kernel, bgp.Poisson(), between=(5, 40))
model = {"priors": priors, "hyper": "integrate", "offset": offset}
replicas = 50  # tests: 3
options = {"replicas": replicas, "random_seed": 1, "progress": False}
print(bgp.calibrate(X, kernel, bgp.Poisson(), **model, **options))

# %%
# That was on average over tables. :doc:`validate </auto_gallery/19_against_the_truth>` looks at this one: it samples
# the same model by NUTS, hyperparameters included, and compares the two posteriors. This takes a minute or more; the
# fit took a second.

draws = 1500  # tests: 20
options = {"draws": draws, "tune": draws, "chains": 2, "progress": False}
validation = bgp.validate(fits["rough"], random_seed=1, **options)
print(validation)

# %%
# What decides?
# -------------
#
# The prior, and then the likelihood, are made a little weaker and a little stronger. How far does the log rate of
# 2006 move, and that of 2007, ``f_new[0]``? :doc:`A value </auto_gallery/20_prior_and_likelihood>` above 0.05 counts.
# The likelihood moves all of them, the prior none: the data decide.

rate = {"2006": lambda f, t: f[:, -1]}
print(bgp.diagnostics.sensitivity(fits["rough"], rate, X_new=X_new[:1]))

# %%
# Which years did the model least expect? ``log_evidence`` is the log probability of a count, given all others: the
# lower, the stranger. In 1957 there were more than twice as many earthquakes as in the year before or after. These are
# the numbers to look up again.

influence = bgp.diagnostics.influence(fits["rough"]).to_frame().head(4)
influence.index = 1900 + influence.index
influence.round(1)

# %%
# And does the answer depend on the model? :doc:`explore </auto_gallery/21_many_models>` fits all combinations of
# kernels and likelihoods, here with hyperparameters chosen by the evidence. All six predict left-out years equally
# well.

kernels = {
    "smooth": bgp.kernels.Gaussian(20.0) + bgp.kernels.Bias(),
    "rough": bgp.kernels.Matern12(20.0) + bgp.kernels.Bias(),
    "both": bgp.kernels.Gaussian(40.0) + bgp.kernels.Matern12(5.0) + bgp.kernels.Bias(),
}
likelihoods = {"Poisson": bgp.Poisson(), "dispersed": bgp.NegativeBinomial(20.0)}
options = {"offset": offset, "random_seed": 1, "progress": False}
models = bgp.explore(X, y, kernels, likelihoods, **options)
models.table[["log_evidence", "elpd", "se", "verdict"]].round(1)

# %%
# No model is clearly the best, so we do not choose. ``combine`` makes one posterior of the two averages, with the
# weights under which leave-one-out predictions are best.

both = bgp.combine({name: fits[name] for name in ("smooth", "rough")}, random_seed=1)
both = bgp.predict(both, X_new, offset=offset_new, quantiles=shares, random_seed=1)
low, middle, high = both["predictions"]["y_quantile"].values.T

fig, ax = plt.subplots(figsize=(5.2, 3.0))
ax.plot(X[:, 0], y, ".", color="0.4", label="observed")
ax.fill_between(X_new[:, 0], low, high, alpha=0.3, label="forecast, 90 %")
ax.plot(X_new[:, 0], middle, label="median")
ax.set(xlabel="year", ylabel="earthquakes", title="Major earthquakes, and the forecast of 2006")
ax.legend()
fig.tight_layout()
plt.show()

# %%
# The decision
# ------------
#
# The expected loss of each number of teams is a mean over draws of the counts to come.

teams = np.arange(10, 36)


def loss(y):
    """Return the cost in a year of each number of teams, averaged over all counts in y."""
    missing = np.maximum(np.ravel(y)[:, None] - teams, 0)
    return teams + 6.0 * missing.mean(axis=0)


def forecast(idata):
    """Draw the counts of the twelve years."""
    idata = bgp.predict(idata, X_new, offset=offset_new, random_seed=1)
    return idata["predictions"]["y"].values


expected = {name: loss(forecast(idata)) for name, idata in fits.items()}
expected["both"] = loss(both["predictions"]["y"].values)

fig, ax = plt.subplots(figsize=(5.2, 3.4))
for name, values in expected.items():
    ax.plot(teams, values, label=f"{name}: {teams[values.argmin()]} teams")
    ax.plot(teams[values.argmin()], values.min(), "k.")
ax.set(xlabel="teams", ylabel="expected cost in a year", ylim=(20, 50))
ax.set(title="What each number of teams is expected to cost")
ax.legend()
fig.tight_layout()
plt.show()

# %%
# The decision is 20 teams. Smooth or rough, it is the same, so that we need not know which is right. The models that
# failed would have kept more. And the six models of ``explore``?

{name: int(teams[loss(forecast(idata)).argmin()]) for name, idata in models.fits.items()}

# %%
# They say 18 to 20. Their hyperparameters are point estimates, which leave out what is not known of them.
#
# Would it pay to wait?
# ---------------------
#
# Suppose that counts of 3 or 6 of the coming years were known, drawn at random. :doc:`plan
# </auto_gallery/22_further_cases>` draws them from the posterior, fits them too, and predicts the others.

options = {"test": 6, "replicas": replicas, "random_seed": 1, "progress": False}
plan = bgp.plan(fits["rough"], [0, 3, 6], X=X_new, **options)
plan.table["mean"].unstack()[["error", "log_score"]].round(2)

# %%
# The mean error is four earthquakes a year. It falls by a fifth with three known years, and little more with six. A
# review after some years is worth asking for. Until then it is 20 teams.
#
# What happened
# -------------
#
# Twelve years later the counts are known.

happened = loss(y_new)
for name, values in expected.items():
    k = values.argmin()
    print(f"{name}: {teams[k]} teams, {values[k]:.1f} expected, {happened[k]:.1f} in fact")
inside = np.mean((y_new >= low) & (y_new <= high))
print(f"{inside:.0%} of the counts were within the 90 % intervals")
print(f"with hindsight: {teams[happened.argmin()]} teams, {happened.min():.1f}")

# %%
# With hindsight one would have taken 19 or 20 teams, which cost the same. The models that failed cost two and four
# more a year.
#
# On one page
# -----------
#
# :doc:`A report </report>` has all this of one fit, in the order in which it was told here: to mail, or to print.

idata = bgp.prior_predictive(fits["rough"], random_seed=1)
idata = bgp.predict(idata, X_new, offset=offset_new, random_seed=1)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "earthquakes.html"
    others = {name: fits[name] for name in ("smooth", "dispersed", "constant")}
    beside = {"reference": validation.reference, "others": others}
    bgp.report(idata, path, y_test=y_new, **beside)
    print(f"{path.stat().st_size / 1e6:.1f} MB")
