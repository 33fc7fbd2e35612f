"""
Earthquakes: from a question to a decision
==========================================

An agency sends a rescue team to each major earthquake. A team can go once a year. It is the end of 2006, and the agency
must fix one number of teams for all of the next twelve years. A team costs 1 a year. If an earthquake comes and all
teams have gone, it hires one in a hurry, for 6. How many teams?

One team more costs 1, and saves 6 in a year that needs it. So it pays while the chance that it is needed is above 1/6:
the best number is the 5/6 quantile of the count of a year.

What is known are the numbers of earthquakes of magnitude 7 or more in the world, year by year from 1900 (U.S.
Geological Survey; to 2006 as in the book of Zucchini and MacDonald, Hidden Markov Models for Time Series, 2009). Early
magnitudes are less certain, since there were few instruments. Aftershocks of that size are counted as well. The years
from 2007 on are kept for the end. The steps are those of :doc:`the workflow </workflow>`, which says more of each. All
fits are containers of ArviZ.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import binom

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
# A count is Poisson, and the log of its rate is a function of the year: a constant and a smooth part. What would one
# expect without the table? One hears of such an earthquake every nine days to ten weeks: say, between 5 and 40 a year.
# ``priors.suggest`` makes priors of that.

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
print("drawn:", np.quantile(drawn, shares), "observed:", np.quantile(y, shares))

# %%
# **This fails.** The model expects one earthquake a year. The prior of a Gaussian process has mean zero, and on the
# log scale zero is a rate of one. The sentences of the priors say it too: an ``offset`` is missing, which is added to
# the log rate. It is the log of the geometric mean of 5 and 40, the same for all years.

middle = np.sqrt(5 * 40)


def offset(X):
    """Return what is added to the log rate of each year."""
    return np.full(len(X), np.log(middle))


centred = before(offset=offset(X))
print(f"middle: {middle:.1f}, drawn with offset:", np.quantile(centred, shares))

fig, axes = plt.subplots(2, 1, figsize=(5.2, 4.0), sharex=True)
fig.suptitle("Counts before the data, and observed")
bins = np.arange(0, 62, 2)
for ax, values, label in zip(axes, (drawn, centred), ("drawn, no offset", "drawn, with offset"), strict=True):
    ax.hist(np.minimum(values, 60), bins, density=True, alpha=0.5, label=label)
    ax.hist(y, bins, density=True, histtype="step", color="k", label="observed")
    ax.set(ylabel="density")
    ax.legend()
axes[1].set(xlabel="earthquakes in a year (last bar: 58 or more)")
fig.tight_layout()
plt.show()

# %%
# Now the middle is right. But the counts spread wider than from 5 to 40, which is the factor of 8 in the sentences.
# With both variances at their medians nine in ten rates do lie between these. But we do not know the variances, and a
# count varies around its rate. That is no harm: the data will say.
#
# A first model, and the checks that it fails
# -------------------------------------------
#
# The simplest model has one rate for all years: the constant alone. Hyperparameters are averaged over
# (``hyper="integrate"``). ``misfit`` predicts each year from the others, and looks how many counts are in their
# interval. Its sentence is empty where it finds nothing.


def fit(kernel, likelihood=bgp.Poisson(), end=107, hyper="integrate"):
    """Fit a model of the first counts, averaged over hyperparameters with suggested priors."""
    X, y = years[:end], counts[:end]
    priors = bgp.priors.suggest(X, kernel, likelihood, between=(5, 40))
    options = {"hyper": hyper, "offset": offset(X), "progress": False, "random_seed": 1}
    return bgp.fit(X, y, kernel, likelihood, priors=priors, **options)


def check_intervals(name):
    """Print whether the intervals of a model hold the counts."""
    found = bgp.diagnostics.misfit(fits[name])
    print(f"{name}: 90 % intervals hold {found.coverage:.0%} of the years. {found.sentence or 'Nothing was found.'}")


models = {"constant": {"kernel": bgp.kernels.Bias()}}
fits = {"constant": fit(**models["constant"])}
check_intervals("constant")

# %%
# **This fails.** Counts vary more than a Poisson distribution with one rate allows. The usual remedy is a
# :doc:`negative binomial </counts>`, whose ``dispersion`` says by how much: the smaller, the more. ``priors.suggest``
# makes a prior of it as well: with 90 % probability the variance of a count is 1.1 to 5 times its mean.

models["dispersed"] = models["constant"] | {"likelihood": bgp.NegativeBinomial(20.0)}
fits["dispersed"] = fit(**models["dispersed"])
check_intervals("dispersed")

# %%
# The intervals are now wide enough. But the model knows nothing of time. If one year had many earthquakes, did the next
# one too? A posterior predictive check asks that of the data and of draws from the model.


def neighbours(y):
    """Return the correlation of each year with the next one."""
    z = y - y.mean(axis=-1, keepdims=True)
    return (z[..., 1:] * z[..., :-1]).sum(axis=-1) / (z**2).sum(axis=-1)


def check(idata):
    """Return that correlation in draws from the model."""
    return neighbours(idata["posterior_predictive"]["y"].values.reshape(-1, len(y)))


replicated = check(fits["dispersed"])
print(f"data: {neighbours(y):.2f}, the largest of {len(replicated)} draws: {replicated.max():.2f}")

# %%
# **This fails as well.** Years with many earthquakes come together, and no draw from the model looks like that.
#
# The model is mended
# -------------------
#
# Now the rate may move. How it moves we do not know: smoothly (`Gaussian`) or from one year to the next (`Matern12`).
# We take both.

models["smooth"] = {"kernel": bgp.kernels.Gaussian() + bgp.kernels.Bias()}
models["rough"] = {"kernel": bgp.kernels.Matern12() + bgp.kernels.Bias()}
fits |= {name: fit(**models[name]) for name in ("smooth", "rough")}

fig, axes = plt.subplots(2, 1, figsize=(5.2, 4.6), sharex=True)
fig.suptitle("Correlation of neighbouring years, by model and in the data")
bins = np.linspace(-0.4, 0.9, 53)
for ax, names in zip(axes, (["constant", "dispersed"], ["smooth", "rough"]), strict=True):
    for name in names:
        ax.hist(check(fits[name]), bins, density=True, alpha=0.5, label=name)
    ax.axvline(neighbours(y), color="k", label="data")
    ax.set(ylabel="density")
    ax.legend(ncols=3, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
axes[1].set(xlabel="correlation")
fig.tight_layout()
plt.show()

for name, idata in fits.items():
    print(f"{name}: {np.mean(check(idata) >= neighbours(y)):.0%} of the draws are at least as large as the data")

# %%
# The draws now look like the data. This check is lenient: the rates of the draws were fitted to the same counts. So
# each year is predicted from all others once more. If a model is right, a predicted quantile has as many of the counts
# below it as it says, and the curve is on the diagonal. (``plots.plot_calibration`` draws this of one fit.)

levels = np.linspace(0.0, 1.0, 101)
fig, ax = plt.subplots(figsize=(5.2, 4.0))
ax.fill_between(levels, *binom.ppf([[0.025], [0.975]], len(y), levels) / len(y), color="0.9", label="95 % by chance")
for name, style in {"constant": "-", "smooth": "--", "rough": "-"}.items():
    curve = bgp.diagnostics.pit_curve(bgp.diagnostics.predicted(fits[name]), levels)
    ax.plot(levels, curve.observed, style, label=name)
ax.set(xlabel="level of the predicted quantile", ylabel="share of the counts below it")
ax.set(title="Calibration, each year predicted from the others")
ax.legend()
fig.tight_layout()
plt.show()

for name in ("smooth", "rough"):
    check_intervals(name)

# %%
# Which is better? ``elpd`` is the log probability, in nats, of all years, each predicted from the others. Smooth and
# rough differ by less than the standard error ``dse``. The constant models are far behind. But this is about filling in
# a year between others. Forecasts are harder, and are tried at the end, from earlier years.

bgp.compare(fits).table[["elpd", "elpd_difference", "dse"]].round(1)

# %%
# Is it computed right?
# ---------------------
#
# We go on with both, and check the computation on the rough one. :doc:`calibrate </auto_gallery/17_calibration>`
# draws tables from the model, at our own years, and fits each as we did. If posteriors are right, the truth has a
# uniform rank among their draws. The ``mean`` of the ranks is then 0.5; their ``spread``, the mean squared distance
# from the middle relative to that of uniform ranks, is 1; ``chance`` says how often uniform ranks are so far off. It
# passes if the smallest of the three chances is at least 0.01/3. As it says itself, so few tables show gross errors
# only, and hyperparameters are not ranked. It takes a minute.

kernel = models["rough"]["kernel"]
priors = bgp.priors.suggest(X, kernel, bgp.Poisson(), between=(5, 40))
replicas = 30  # tests: 3
options = {"hyper": "integrate", "replicas": replicas, "random_seed": 1, "progress": False}
print(bgp.calibrate(X, kernel, bgp.Poisson(), priors=priors, offset=offset(X), **options))

# %%
# That was on average over tables. :doc:`validate </auto_gallery/19_against_the_truth>` looks at this one: it samples
# the same model by NUTS, hyperparameters included, and compares the two posteriors. They agree if means and whole
# distributions are at most 0.1 posterior standard deviations apart, standard deviations 10 %, and leave-one-out
# densities 0.1 nats. Those of the samples come from importance sampling, which is trusted only for years with a k-hat
# of at most 0.25; the others are not compared. The fit needs no draws for its own, which are part of its solution. This
# takes one to two minutes; the fit took a second.

draws = 1000  # tests: 20
validation = bgp.validate(fits["rough"], draws=draws, tune=draws // 3, chains=2, random_seed=1, progress=False)
print(validation)

# %%
# What decides?
# -------------
#
# The prior, and then the likelihood, are made a little weaker and a little stronger. Here the prior is that of the
# hyperparameters, since they are averaged over. How far does the log rate of 2006 move, and those of 2007, 2012 and
# 2018, ``f_new``? :doc:`A value </auto_gallery/20_prior_and_likelihood>` above 0.05 counts.

rate = {"2006": lambda f, t: f[:, -1]}
for name in ("smooth", "rough"):
    print(name, bgp.diagnostics.sensitivity(fits[name], rate, X_new=X_new[[0, 5, 11]]), sep="\n")

# %%
# The prior moves none of them. That is all that the check mark says. The likelihood moves the rates of 2006 and 2007:
# the data decide. Further ahead the data say less. In the smooth model they hardly move the rate of 2018. There the
# kernel decides: how a smooth rate goes on is assumed, and not seen.
#
# Which years did the model least expect? ``log_evidence`` is the log probability of a count, given all others: the
# lower, the stranger. In 1957 there were more than twice as many earthquakes as in the year before or after. If there
# is a mistake in the table, look for it here first.

influence = bgp.diagnostics.influence(fits["rough"]).to_frame().head(4)
influence.index = X[influence.index, 0].astype(int)
influence.round(1)

# %%
# And does the answer depend on the model? :doc:`explore </auto_gallery/21_many_models>` fits all combinations of
# kernels and likelihoods, here with hyperparameters chosen by the evidence. All six predict left-out years equally
# well. But they are fewer than six. A hyperparameter at a bound of the search says that its part of the model does
# nothing. So "rough, dispersed" ended as "rough, Poisson", and "both, dispersed" has no constant: its rough part is so
# slow that it takes the place of one. "both, Poisson" ended as "smooth, Poisson": as printed below, its rough part has
# next to no variance, though the search stopped just before the bound.

kernels = {
    "smooth": bgp.kernels.Gaussian(20.0) + bgp.kernels.Bias(),
    "rough": bgp.kernels.Matern12(20.0) + bgp.kernels.Bias(),
    "both": bgp.kernels.Gaussian(40.0) + bgp.kernels.Matern12(5.0) + bgp.kernels.Bias(),
}
likelihoods = {"Poisson": bgp.Poisson(), "dispersed": bgp.NegativeBinomial(20.0)}
explored = bgp.explore(X, y, kernels, likelihoods, offset=offset(X), random_seed=1, progress=False)
print(bgp.diagnostics.hyperparameters(explored.fits["both, Poisson"]))
table = explored.table[["log_evidence", "elpd", "se", "verdict"]].round(1)
table["at a bound"] = explored.table["warning"].str.extract(r"search: (.+?)\. \(", expand=False)
table.fillna("")

# %%
# No model is clearly the best, so we do not choose. ``combine`` makes one posterior of the two averages, with the
# weights under which leave-one-out predictions are best.

pair = {name: fits[name] for name in ("smooth", "rough")}
print(bgp.compare(pair).table[["weight"]].round(2))
both = bgp.combine(pair, random_seed=1)
both = bgp.predict(both, X_new, offset=offset(X_new), quantiles=shares, random_seed=1)
low, median, high = both["predictions"]["y_quantile"].values.T

fig, ax = plt.subplots(figsize=(5.2, 3.0))
ax.plot(X[:, 0], y, ".", color="0.4", label="observed")
ax.fill_between(X_new[:, 0], low, high, alpha=0.3, label="forecast, 90 %")
ax.plot(X_new[:, 0], median, label="median")
ax.set(xlabel="year", ylabel="earthquakes", ylim=(0, 52), title="Major earthquakes, and the forecast of 2006")
ax.legend(ncols=3, loc="upper center")
fig.tight_layout()
plt.show()

# %%
# The decision
# ------------
#
# The expected loss of each number of teams is a mean over draws of the counts to come.

teams = np.arange(10, 41)


def loss(y):
    """Return the cost in a year of each number of teams, averaged over all counts in y."""
    missing = np.maximum(np.ravel(y)[:, None] - teams, 0)
    return teams + 6.0 * missing.mean(axis=0)


def forecast(idata, X_new=X_new):
    """Draw the counts of the years to come."""
    idata = bgp.predict(idata, X_new, offset=offset(X_new), random_seed=1)
    return idata["predictions"]["y"].values


expected = {name: loss(forecast(idata)) for name, idata in fits.items()}

fig, ax = plt.subplots(figsize=(5.2, 3.4))
for (name, values), style in zip(expected.items(), ("-", "-", "-", "--"), strict=True):
    ax.plot(teams, values, style, label=f"{name}: {teams[values.argmin()]} teams")
    ax.plot(teams[values.argmin()], values.min(), "k.")
ax.set(xlabel="teams", ylabel="expected cost in a year")
ax.set(title="What each number of teams is expected to cost")
ax.legend()
fig.tight_layout()
plt.show()

expected["both"] = loss(both["predictions"]["y"].values)
pd.DataFrame(expected, index=pd.Index(teams, name="teams")).loc[18:26].round(1)

# %%
# The decision is 20 teams. Smooth or rough, it is the same, so that we need not know which is right; and 19 or 21 cost
# nearly as little. The models that failed would have kept more. And the six models of ``explore``?

print({name: int(teams[loss(forecast(idata)).argmin()]) for name, idata in explored.fits.items()})

# %%
# Each says 19 or 20, which cost nearly the same. Their hyperparameters are point estimates, which leave out what is not
# known of them.
#
# If the number could change from year to year, it would grow: the last years were quiet, and the further ahead, the
# less we know.

for name, idata in pair.items():
    print(name, np.quantile(forecast(idata), 5 / 6, axis=(0, 1), method="inverted_cdf").astype(int))

# %%
# What would it help to know some of these years? :doc:`plan </auto_gallery/22_further_cases>` draws 3 or 6 of them at
# random, and counts from the posterior, fits these too, and predicts other years.

plan = bgp.plan(fits["rough"], [0, 3, 6], X=X_new, test=6, replicas=replicas, random_seed=1, progress=False)
falls = -np.diff(plan.values[:, :, 1], axis=1)  # of the error, with three known years and with three more
print("falls by", falls.mean(axis=0).round(2), "+-", (falls.std(axis=0) / np.sqrt(replicas - 1)).round(2))
plan.table.xs("error", level="quantity").round(1)

# %%
# The mean error is some four earthquakes a year. The bands are wide, and hold each other's means: what will come is not
# known. But each of the 30 futures was looked at with none, three and six years known. In these the error falls by
# several standard errors with the first three, and with three more by about half of that. But that is of known years
# between unknown ones, and of errors. What the first three would save is another question: see below.
#
# What happened
# -------------
#
# Twelve years later the counts are known.

happened = loss(y_new)
for name, values in expected.items():
    k = values.argmin()
    print(f"{name}: {teams[k]} teams, {values[k]:.1f} expected, {happened[k]:.1f} in fact")
print(f"with hindsight: {teams[happened == happened.min()]} teams, {happened.min():.1f}")
print(f"{np.sum((y_new >= low) & (y_new <= high))} of {len(y_new)} counts were within the 90 % intervals")

fig, ax = plt.subplots(figsize=(5.2, 3.0))
ax.fill_between(X_new[:, 0], low, high, alpha=0.3, label="forecast, 90 %")
ax.plot(X_new[:, 0], median, label="median")
ax.plot(X_new[:, 0], y_new, "k.", label="what came")
ax.axhline(20, color="C1", ls="--", label="20 teams")
ax.set(xlabel="year", ylabel="earthquakes", ylim=(0, 46), title="The forecast of 2006, and what came")
ax.legend(ncols=2, loc="upper center")
fig.tight_layout()
plt.show()

# %%
# With hindsight one would have taken 19 or 20 teams. But this is one forecast, and only 2010 had more than 20
# earthquakes. Would the models have served as well before? We go back to earlier years, fit what was known then, choose
# a number of teams for twelve years, and pay for what came.

costs = {}
ends = range(35, 108, 12)  # tests: 35, 108, 72
for end in ends:
    cost = loss(counts[end : end + 12])
    chosen = {name: loss(forecast(fit(**how, end=end), years[end : end + 12])).argmin() for name, how in models.items()}
    costs[int(years[end - 1, 0])] = {name: cost[k] for name, k in chosen.items()} | {"hindsight": cost.min()}
costs = pd.DataFrame(costs).T.rename_axis("known until")
print(costs.mean().round(1).to_dict())
costs.round(1)

# %%
# On average smooth and rough cost less than the models that failed, but by little, and not each time. From 1970 the
# constant was better: the years before had many earthquakes, and those after few, which no model foresaw.
#
# The warnings are of fits to few years. Evidence times prior is then far from a normal density, which the average over
# hyperparameters supposes. What do they mean for the decisions? ``hyper="surrogate"`` supposes no such density, and
# takes ten times as long. With it (``fit(..., hyper="surrogate")``) both models choose 20 teams for 2007 to 2018 as
# well. In the earlier periods they choose the same number or one more, at costs of 30.0 and 29.4 on average. So a
# warning is worth a team at most.
#
# And would it have paid to look again at the end of 2009? Three more counts are fitted, for the nine years left.

later = loss(counts[110:])
for name in pair:
    values = loss(forecast(fit(**models[name], end=110), years[110:]))
    k = values.argmin()
    saved, in_fact = (each[teams == 20][0] - each[k] for each in (values, later))
    print(f"{name}: {teams[k]} teams, which save {saved:.2f} a year, and {in_fact:.2f} in fact")

# %%
# Two teams more were then expected to save less than 1 a year. In fact they would have cost more.
#
# On one page
# -----------
#
# :doc:`A report </report>` has all this of one fit, in the order in which it was told here: to mail, or to print.

idata = bgp.prior_predictive(fits["rough"], random_seed=1)
idata = bgp.predict(idata, X_new, offset=offset(X_new), random_seed=1)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "earthquakes.html"
    others = {name: fits[name] for name in ("smooth", "dispersed", "constant")}
    bgp.report(idata, path, y_test=y_new, reference=validation.reference, others=others)
    print(f"{path.stat().st_size / 1e6:.1f} MB")
