"""Which values of the options of `fit` do not go together, and the words by which they are refused.

The table is what the documentation says; a cell to which none of these applies must work.
"""

from __future__ import annotations

from tests.covering.arrays import Refusal
from tests.covering.options import (
    AVERAGES,
    BINARY,
    FLAT,
    ON_INDUCING,
    SEVERAL_CLASSES,
    WITH_GROUPS,
)

CAVITIES = {"tap", "naive", "variational"}
GAUSSIAN = {"gaussian", "gaussian, noise of each"}
OF_EXACT = {"probit", "probit with flips", "step", "step with flips", *GAUSSIAN}
ROUGH = {"rough", "places", "areas", "groups", "groups beside", "network", "a length scale of each", "periodic"}
SINGULAR = {"linear", "smooth"}

FIT = (
    Refusal(("method",), lambda c: c["method"] == "svm", "method 'svm' (is a limit|has one latent value)"),
    Refusal(
        ("method", "likelihood"),
        lambda c: c["likelihood"] in SEVERAL_CLASSES and c["method"] not in {"tap", "laplace", "svm"},
        "has one latent value for each case, and",
    ),
    Refusal(
        ("method", "likelihood"),
        lambda c: c["likelihood"].startswith("multinomial") and c["method"] == "laplace",
        r"method 'laplace' for several classes needs Softmax\(\)",
    ),
    Refusal(
        ("likelihood", "kernel"),
        lambda c: c["kernel"] == "of each class" and c["likelihood"] not in SEVERAL_CLASSES,
        "kernels.PerClass has a kernel for each class",
    ),
    Refusal(
        ("likelihood", "offset", "weights"),
        lambda c: c["likelihood"] == "step" and (c["offset"], c["weights"]) != ("none", "none"),
        "forbids no latent value",
    ),
    Refusal(
        ("likelihood", "offset"),
        lambda c: c["likelihood"] in SEVERAL_CLASSES and c["offset"] != "none",
        "an offset goes with one latent value for each case",
    ),
    Refusal(
        ("likelihood", "weights", "method"),
        lambda c: (
            c["likelihood"] in SEVERAL_CLASSES
            and c["weights"] != "none"
            and (c["likelihood"], c["method"]) != ("softmax", "laplace")
        ),
        "weights of several classes go with Softmax|has one latent value for each case, and",
    ),
    Refusal(
        ("marginals", "method"),
        lambda c: c["marginals"] == "tilted" and c["method"] not in CAVITIES,
        "marginals='tilted' needs the cavities",
    ),
    Refusal(
        ("marginals", "likelihood"),
        lambda c: c["marginals"] == "tilted" and c["likelihood"] in SEVERAL_CLASSES,
        "marginals='tilted' are of one latent value",
    ),
    Refusal(
        ("marginals", "matrix"),
        lambda c: c["marginals"] == "tilted" and c["matrix"] not in {"auto", "dense"},
        "marginals='tilted' needs the dense Gram matrix",
    ),
    Refusal(
        ("marginals", "kernel"),
        lambda c: c["marginals"] == "tilted" and c["kernel"] in SINGULAR,
        "singular|invertible",
        found_by_solving=True,
    ),
    Refusal(
        ("method", "kernel"),
        lambda c: c["method"] == "variational" and c["kernel"] in SINGULAR,
        "needs an invertible Gram matrix",
        found_by_solving=True,
    ),
    Refusal(
        ("matrix", "method"),
        lambda c: c["matrix"] in ON_INDUCING and c["method"] in {"variational", "online"},
        "does not work on inducing cases",
    ),
    Refusal(
        ("matrix", "method", "likelihood"),
        lambda c: c["matrix"] in ON_INDUCING and c["method"] == "exact" and c["likelihood"] in BINARY,
        "does not work on inducing cases|method 'exact' handles",
    ),
    Refusal(
        ("method", "likelihood"),
        lambda c: c["method"] == "exact" and c["likelihood"] not in OF_EXACT | SEVERAL_CLASSES,
        "method 'exact' handles Gaussian and Probit likelihoods",
    ),
    Refusal(
        ("method", "offset", "weights"),
        lambda c: c["method"] == "exact" and (c["offset"], c["weights"]) != ("none", "none"),
        "method 'exact' handles Gaussian and Probit likelihoods",
    ),
    Refusal(
        ("method", "likelihood"),
        lambda c: c["method"] == "laplace" and c["likelihood"] in FLAT,
        "method 'laplace' needs a likelihood with a second derivative",
    ),
    Refusal(
        ("matrix", "method"),
        lambda c: c["matrix"] == "low rank" and c["method"] in {"variational", "online", "exact"},
        "needs the dense Gram matrix",
    ),
    Refusal(
        ("matrix", "kernel"),
        lambda c: c["matrix"] == "low rank" and c["kernel"] in ROUGH,
        r"Control\(gram='low_rank'\) is not possible",
        found_by_solving=True,
    ),
    Refusal(
        ("matrix", "kernel"),
        lambda c: c["matrix"] in {"low rank", *ON_INDUCING} and c["kernel"] == "of each class",
        "PerClass|each class has a kernel of its own",
    ),
    Refusal(
        ("matrix", "kernel"),
        lambda c: c["matrix"] == "inducing that move" and c["kernel"] in WITH_GROUPS,
        r"Inducing\(move=True\) needs the derivative of the kernel",
    ),
    Refusal(
        ("matrix", "likelihood"),
        lambda c: c["matrix"] in ON_INDUCING and c["likelihood"] == "step",
        "inducing needs a likelihood with latent noise or flips",
    ),
    Refusal(
        ("matrix", "likelihood"),
        lambda c: c["matrix"] == "low rank" and c["likelihood"] in FLAT,
        "is a step without latent noise",
    ),
    Refusal(
        ("hyper", "kernel"),
        lambda c: c["hyper"] == "scan" and c["kernel"] == "linear",
        "this kernel has no length scale to scan",
    ),
    Refusal(
        ("method", "kernel", "likelihood"),
        lambda c: c["method"] == "exact" and c["kernel"] == "linear" and c["likelihood"] in FLAT,
        "method 'exact' without noise needs an invertible Gram matrix",
        found_by_solving=True,
    ),
    Refusal(
        ("hyper", "likelihood"),
        lambda c: c["hyper"] == "scan" and c["likelihood"] not in BINARY | SEVERAL_CLASSES,
        "hyper='scan' counts wrong labels",
    ),
    Refusal(
        ("hyper", "matrix"),
        lambda c: c["hyper"] == "corrected evidence" and c["matrix"] not in {"auto", "dense"},
        "corrected=True needs a dense Gram matrix",
    ),
    Refusal(
        ("hyper", "method"),
        lambda c: c["hyper"] == "corrected evidence" and c["method"] != "tap",
        "corrected=True is for TAP's evidence",
        found_by_solving=True,
    ),
    Refusal(
        ("hyper", "likelihood"),
        lambda c: c["hyper"] == "corrected evidence" and c["likelihood"] in SEVERAL_CLASSES,
        "corrected=True needs two classes or real targets",
    ),
    Refusal(
        ("hyper", "matrix"),
        lambda c: c["matrix"] == "inducing that move" and c["hyper"] != "evidence",
        r"Inducing\(move=True\) moves inducing inputs uphill",
    ),
)
UNSOLVED = (
    Refusal(
        ("likelihood", "matrix"),
        lambda c: c["likelihood"] == "student" and c["matrix"] in ON_INDUCING,
        r"allow noise by a larger scale of the likelihood or kernels.White\(",
    ),
    Refusal(
        ("likelihood", "method", "matrix"),
        lambda c: c["likelihood"] == "weibull" and c["method"] == "laplace" and c["matrix"] in ON_INDUCING,
        "laplace: rounding decides",
    ),
)
"""Where the equations may have no solution, which is said: the tails of the targets outweigh few inducing cases."""
MADE = {"quadrature of labels", "quadrature of counts"}
INTEGRATED = {"probit with flips", "step with flips", "student", "zero-inflated", *MADE}
"""Whose powers are integrals."""
SLOW_POWERS = Refusal(
    ("hyper", "weights", "likelihood"),
    lambda c: c["hyper"] != "none" and c["weights"] != "none" and c["likelihood"] in INTEGRATED,
    "",
)
SLOW = (
    Refusal(("hyper", "likelihood"), lambda c: c["hyper"] != "none" and c["likelihood"] in MADE, ""),
    Refusal(("hyper", "method"), lambda c: c["hyper"] == "surrogate" and c["method"] not in {"tap", "laplace"}, ""),
    Refusal(
        ("hyper", "likelihood"),
        lambda c: c["hyper"] == "surrogate" and c["likelihood"] not in {"probit", "gaussian", "poisson"},
        "",
    ),
    Refusal(("hyper", "weights"), lambda c: c["hyper"] == "surrogate" and c["weights"] != "none", ""),
    Refusal(("hyper", "likelihood"), lambda c: c["hyper"] == "nuts" and c["likelihood"] in SEVERAL_CLASSES, ""),
    Refusal(("hyper", "method"), lambda c: c["hyper"] in AVERAGES and c["method"] in {"exact", "naive"}, ""),
    Refusal(("hyper", "weights"), lambda c: c["hyper"] in AVERAGES and c["weights"] == "fractions", ""),
    SLOW_POWERS,
    Refusal(
        ("hyper", "method", "likelihood"),
        lambda c: c["hyper"] != "none" and c["method"] == "exact" and c["likelihood"] in INTEGRATED,
        "",
    ),
)
"""What works and takes seconds: `make validate` has it, `make test` does not."""
PREDICT = (
    Refusal(
        ("corrected", "likelihood"),
        lambda c: c["corrected"] == "yes" and c["likelihood"] in SEVERAL_CLASSES,
        "corrected=True is for one latent value a case",
    ),
    Refusal(
        ("corrected", "method", "likelihood"),
        lambda c: c["corrected"] == "yes" and c["method"] != "tap" and c["likelihood"] not in GAUSSIAN,
        "correct what TAP leaves out",
    ),
)
