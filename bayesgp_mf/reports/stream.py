"""The page of a stream: a container of one has draws at its basis inputs, and its scores."""

from __future__ import annotations

from bayesgp_mf.container.groups import Container, get_group, group_names
from bayesgp_mf.plots import plot_stream
from bayesgp_mf.reports.page import Figures, Section, Table, render


def is_stream(idata: Container) -> bool:
    """Tell whether something is the container of a stream."""
    return (
        hasattr(idata, "groups")
        and "fit" in group_names(idata)
        and get_group(idata, "fit").attrs.get("method") == "stream"
    )


def stream_page(idata: Container) -> str:
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
    return render("Report of a stream", lead, Table("At a glance.", ("", "This stream"), rows), sections)
