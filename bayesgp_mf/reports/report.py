"""One page about any fit."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from bayesgp_mf.container.groups import Container, copied, get_group, group_names, is_stream
from bayesgp_mf.container.quality import Quality
from bayesgp_mf.diagnostics.fitted import Fitted, fitted
from bayesgp_mf.diagnostics.importance import quality_of_approximation
from bayesgp_mf.duels import is_of_duels
from bayesgp_mf.files import as_path, whole
from bayesgp_mf.fitting import predict
from bayesgp_mf.inputs.tables import check_same_cases
from bayesgp_mf.plots import plot_stream
from bayesgp_mf.reports import computation, predictions
from bayesgp_mf.reports import computation as model
from bayesgp_mf.reports.page import Figures, Section, Table, own_style, render
from bayesgp_mf.reports.pdf import as_pdf, browser

SUFFIXES = ("", ".html", ".htm", ".pdf")


def report(
    idata: Container,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
    reference: Container | None = None,
    others: Mapping[str, Container] | None = None,
    kernel: Any = None,
    likelihood: Any = None,
    method: Any = None,
) -> Path:
    """Write a page about a fit: how good it is, what it predicts, and which cases it predicts worst.

    It is one HTML file that loads nothing from elsewhere, so that you can mail and print it, or a PDF. The page says
    what a fit does not have, such as leave-one-out predictions of a table in parts.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` or `predict` returned, or the same loaded from a file; or what ``to_container`` of a stream returned.
        It is not changed.
    path : str or path
        The file to write, which ends in .html, or in nothing, or in .pdf: then Chromium, Chrome or Edge prints it, one
        of which must be on this machine. An existing one is replaced once the new one is complete; missing folders are
        created.
    title : str, optional
        The heading of the page; by default "Report of a fit".
    X_test : (m, d) array_like, optional
        New inputs to predict. Without them the page shows the predictions of `predict`, if there are any.
    y_test : (m,) array_like, optional
        Targets of the new cases, to score the predictions.
    offset, trials : (m,) array_like, optional
        Of the cases of ``X_test``, as `predict` has them.
    reference : InferenceData or DataTree, optional
        Another posterior of the same model at the same cases, such as samples by `pymc.sample_latent`, to compare the
        fit with by `diagnostics.agreement`.
    others : mapping of str to InferenceData or DataTree, optional
        Fits of other models to the same cases, by name, to compare this fit with by `compare`.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.

    Returns
    -------
    pathlib.Path
        Where it was written.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit, ``path`` is a folder or a file of another kind, or no browser can print it,
        ``X_test``, ``y_test``, ``offset`` or ``trials`` does not match it, or ``reference`` or one of ``others`` has
        other cases.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"dose": [0.0, 1.0, 2.0, 3.0], "age": [4.0, 1.0, 2.0, 3.0]})
    >>> idata = bgp.fit(X, [0, 0, 1, 1], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = bgp.report(idata, Path(folder) / "fit.html")
    ...     page.read_text()[:15]
    '<!DOCTYPE html>'
    """
    path = as_path("path", path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"path must end in .html or .pdf, and is {str(path)!r}: a report is a page, for a browser or for paper."
        )
    printer = browser() if path.suffix.lower() == ".pdf" else None
    if path.is_dir():
        raise ValueError(
            f"path must be the file to write, and {str(path)!r} is a folder. Pass {str(path / 'fit.html')!r}."
        )
    given = {"kernel": kernel, "likelihood": likelihood, "method": method}
    if X_test is None and (offset is not None or trials is not None):
        raise ValueError("offset and trials are those of the cases of X_test, and there is none. Pass X_test as well.")
    if is_stream(idata):
        if X_test is not None or y_test is not None or reference is not None or others is not None:
            raise ValueError(
                "X_test, y_test, reference and others go with a fit, and this is the container of a stream. Leave them "
                "out, and score new cases with the stream itself, stream.update."
            )
        with own_style():
            html = stream_page(idata, title)
    else:
        about = fitted(idata, **given)
        if X_test is not None:
            about = fitted(predict(copied(idata), X_test, draws=False, offset=offset, trials=trials, **given), **given)
        if y_test is not None and "predictions" not in group_names(about.idata):
            raise ValueError("y_test are the targets of new cases, and there are none. Pass X_test, or predict first.")
        check_same_cases(X_test, y_test, "X_test", "y_test")
        with own_style():
            found = quality_of_approximation(about.idata)  # the page says of the model elsewhere
            sections = sections_of(about, found, X_test=X_test, y_test=y_test, reference=reference, others=others)
            lead = [found.sentence, *predictions.misfits(about)]
            html = render(title or "Report of a fit", lead, model.glance(about), sections)
    with whole(path) as part:
        if printer is None:
            part.write_text(html, encoding="utf-8")
        else:
            as_pdf(printer, html, part)
    return path


def sections_of(
    about: Fitted,
    found: Quality,
    *,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    reference: Container | None = None,
    others: Mapping[str, Container] | None = None,
) -> list[Section]:
    """Return all sections of the page about a fit whose quality was found, for a page that says more than that.

    They are in the order of an analysis: before the data, computation, checks, predictions, other models.
    """
    has = group_names(about.idata)
    sections = [
        model.data(about),
        model.model(about),
        *([model.before(about)] if "prior_predictive" in has else []),
        computation.quality(found),
        computation.computed(about),
        *([] if reference is None else [computation.reference(about, reference)]),
        computation.hyperparameters(about),
        *([predictions.duels(about)] if is_of_duels(about) else []),
        predictions.calibration(about),
        predictions.worst(about),
        predictions.effects(about),
        *([predictions.new_cases(about, y_test, X_test)] if "predictions" in has else []),
        *([] if others is None else [predictions.compared(about, others)]),
    ]
    return sections


def stream_page(idata: Container, title: str | None = None) -> str:
    """Return the page."""
    fit = get_group(idata, "fit")
    cases, score = int(fit["n_cases"].sum()), float(fit["log_score"].sum())
    lead = [
        "unknown: a stream does not say what its approximation leaves out. To know, fit some hundred of its cases by "
        "bgp.fit, and compare the predictions.",
        f"It predicted each of {cases} cases before it learned from it. Mean log score: {score / cases:.4f} nats.",
    ]
    rows = [
        ("Cases seen", f"{int(fit.attrs['n_seen'])}"),
        ("Batches", f"{fit.sizes['batch']}"),
        ("Likelihood", str(fit.attrs["likelihood"])),
        ("Kernel", str(fit.attrs["kernel"])),
    ]
    caption = "The log score of each batch before the stream learned from it. A fall says that the data have changed."
    left = (
        "Effects, calibration and worst cases are not shown: the container of a stream has draws at its basis inputs "
        "and no cases. Keep the stream itself by stream.save(path), and predict with it."
    )
    sections = [
        Section("Scores along the stream", [Figures([(plot_stream(idata), caption)])]),
        Section("What is not shown", [left]),
    ]
    return render(title or "Report of a stream", lead, Table("At a glance.", ("", "This stream"), rows), sections)
