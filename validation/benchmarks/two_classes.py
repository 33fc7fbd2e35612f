"""Tables of two classes: scikit-learn's, and those of R's packages where R is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

NO_R = "R with mlbench, kernlab and MASS is not installed: its {count} tables are left out."
ABSENT = 3
"""The exit status of the script where a package is missing."""
SCRIPT = r"""
for (package in c("mlbench", "kernlab", "MASS"))
  if (!requireNamespace(package, quietly = TRUE)) quit(status = 3)
suppressMessages({library(mlbench); library(kernlab); library(MASS)})
folder <- commandArgs(trailingOnly = TRUE)[1]
write <- function(name, data, y, classes = NULL, without = NULL) {
  data <- na.omit(data)
  labels <- if (is.character(y)) data[[y]] else y(data)
  if (is.character(y)) without <- c(without, y)
  data <- data[, setdiff(names(data), without), drop = FALSE]
  data$y <- as.character(labels)
  if (!is.null(classes)) data <- data[data$y %in% classes, ]
  write.csv(data, file.path(folder, paste0(name, ".csv")), row.names = FALSE)
}
above <- function(column) function(data) ifelse(data[[column]] > median(data[[column]]), "hi", "lo")
data(BreastCancer, Ionosphere, PimaIndiansDiabetes, Sonar, Vehicle, Satellite, Glass, Vowel, HouseVotes84,
     BostonHousing, Ozone, spam, musk, income, ticdata)
write("breastcancer", BreastCancer, "Class", without = "Id")
write("ionosphere", Ionosphere, "Class", without = "V2")
write("pima768", PimaIndiansDiabetes, "diabetes")
write("sonar", Sonar, "Class")
write("opelsaab", Vehicle, "Class", c("opel", "saab"))
write("satdamp", Satellite, "classes", c("damp grey soil", "very damp grey soil"))
write("glass2", Glass, "Type", c("1", "2"))
write("vowel2", Vowel, function(data) as.integer(data$Class) %% 2, without = c("V1", "Class"))
write("votes", HouseVotes84, "Class")
write("spam", spam, "type")
write("musk", musk, "Class")
write("income", income, function(data) as.integer(data$INCOME) >= 7, without = "INCOME")
write("tic", ticdata, "CARAVAN")
write("birthwt", birthwt, "low", without = "bwt")
write("crabs", crabs, "sex", without = c("sp", "index"))
write("aids2", Aids2, "status")
write("pimatr", Pima.tr, "type")
write("boston2", BostonHousing, above("medv"), without = "medv")
write("ozone2", Ozone, above("V4"), without = "V4")
write("vehicle2", Vehicle, "Class", c("bus", "van"))
write("satgrey", Satellite, "classes", c("grey soil", "damp grey soil"))
set.seed(1)
simulated <- function(name, made, ...) write(name, data.frame(made$x, y = made$classes), "y", ...)
simulated("ringnorm", mlbench.ringnorm(2000, d = 20))
simulated("twonorm", mlbench.twonorm(2000, d = 20))
simulated("threenorm", mlbench.threenorm(2000, d = 20))
simulated("xor3", mlbench.xor(2000, d = 3), c("1", "2"))
simulated("circle6", mlbench.circle(2000, d = 6))
friedman <- mlbench.friedman1(2000)
write("friedman2", data.frame(friedman$x, f = friedman$y), above("f"), without = "f")
simulated("waveform2", mlbench.waveform(2000), c("1", "2"))
simulated("cassini2", mlbench.cassini(2000), c("1", "2"))
smiley <- mlbench.smiley(2000)
write("smiley2", data.frame(smiley$x, f = as.integer(smiley$classes)), function(data) data$f > 2, without = "f")
"""
"""Writes a file for each table; a class of a smooth function is above its median, those of smiley are eyes or none."""
OF_R = {
    "breastcancer": False,
    "ionosphere": False,
    "pima768": False,
    "sonar": False,
    "opelsaab": False,
    "satdamp": False,
    "glass2": False,
    "vowel2": False,
    "votes": False,
    "spam": False,
    "musk": False,
    "income": False,
    "tic": False,
    "birthwt": False,
    "crabs": False,
    "aids2": False,
    "pimatr": False,
    "boston2": False,
    "ozone2": False,
    "ringnorm": False,
    "twonorm": False,
    "threenorm": False,
    "xor3": False,
    "circle6": False,
    "friedman2": False,
    "vehicle2": True,
    "satgrey": True,
    "waveform2": True,
    "cassini2": True,
    "smiley2": True,
}
"""Whether a table was kept apart. Not here: MASS's biopsy, whose cases are those of mlbench's BreastCancer."""


class Table(NamedTuple):
    """One table.

    Attributes
    ----------
    name : str
        Of the table.
    apart : bool
        Whether it was kept apart while the default model was chosen.
    X : DataFrame
        Numbers and text, in their own units.
    y : (n,) array
        Labels 0/1.
    """

    name: str
    apart: bool
    X: pd.DataFrame
    y: np.ndarray[Any, np.dtype[np.int64]]


def tables() -> tuple[list[Table], tuple[str, ...]]:
    """Return all tables that are here, and a remark if R is not."""
    found = [_table(name, apart, *load()) for name, (apart, load) in OF_SKLEARN.items()]
    with TemporaryDirectory() as folder:
        if not _export(Path(folder)):
            return found, (NO_R.format(count=len(OF_R)),)
        for name, apart in OF_R.items():
            frame = pd.read_csv(Path(folder) / f"{name}.csv", keep_default_na=False)  # None is a word
            found.append(_table(name, apart, frame.drop(columns="y"), frame["y"]))
    return sorted(found, key=lambda table: table.apart), ()


def _export(folder: Path) -> bool:
    """Write the tables of R, and return whether it could."""
    rscript = shutil.which("Rscript")
    if rscript is None:
        return False
    script = folder / "tables.R"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run([rscript, str(script), str(folder)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, ABSENT):
        raise RuntimeError(f"R could not write its tables: {done.stderr.strip()}")
    return done.returncode == 0


def _table(name: str, apart: bool, X: pd.DataFrame, y: Any) -> Table:
    return Table(name, apart, X, np.unique(np.asarray(y), return_inverse=True)[1])


def _framed(X: Any, y: Any) -> tuple[pd.DataFrame, Any]:
    X = np.asarray(X, dtype=np.float64)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]), np.asarray(y)


def _some(X: Any, y: Any, one: int, other: int) -> tuple[pd.DataFrame, Any]:
    """Return the cases of two classes."""
    X, y = _framed(X, y)
    kept = np.isin(y, [one, other])
    return X[kept].reset_index(drop=True), y[kept]


def _cancer() -> tuple[pd.DataFrame, Any]:
    from sklearn.datasets import load_breast_cancer

    return _framed(*load_breast_cancer(return_X_y=True))


def _wine() -> tuple[pd.DataFrame, Any]:
    from sklearn.datasets import load_wine

    return _some(*load_wine(return_X_y=True), 0, 1)


def _digits() -> tuple[pd.DataFrame, Any]:
    from sklearn.datasets import load_digits

    return _some(*load_digits(return_X_y=True), 3, 8)


def _made() -> tuple[pd.DataFrame, Any]:
    from sklearn.datasets import make_classification

    return _framed(*make_classification(2000, 20, n_informative=5, random_state=1))


def _moons() -> tuple[pd.DataFrame, Any]:
    from sklearn.datasets import make_moons

    return _framed(*make_moons(2000, noise=0.3, random_state=1))


OF_SKLEARN: dict[str, tuple[bool, Callable[[], tuple[pd.DataFrame, Any]]]] = {
    "wdbc": (False, _cancer),
    "wine": (True, _wine),
    "digits 3, 8": (True, _digits),
    "make_classif.": (True, _made),
    "make_moons": (True, _moons),
}
