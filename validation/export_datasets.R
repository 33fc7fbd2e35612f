# Writes the CSV files that bayesgp_mf.datasets bundles, out of two R packages.
#
# Usage, from the repository root:
#
#     Rscript validation/export_datasets.R
#
# It rewrites bayesgp_mf/datasets/data/{sonar,crabs,pima_train,pima_test,forensic_glass}.csv; every run
# gives the same bytes, whose SHA-256 sums tests/datasets/test_bundled_files.py holds.
#
# Needs R with MASS and mlbench (on Debian: apt-get install r-cran-mass r-cran-mlbench). The committed
# files were written with R 4.2.2, MASS 7.3-58.2 and mlbench 2.1-3.
#
#     sonar           mlbench::Sonar   UCI "Connectionist Bench (Sonar, Mines vs. Rocks)"
#     crabs           MASS::crabs
#     pima_train      MASS::Pima.tr
#     pima_test       MASS::Pima.te
#     forensic_glass  MASS::fgl        its column `fold` is the vector `rand` of MASS's scripts/ch12.R

folder <- file.path("bayesgp_mf", "datasets", "data")
if (!dir.exists(folder)) {
  stop("expected the folder ", folder, " below the working directory, got ", getwd(),
       ". Run this script from the repository root.")
}

from_package <- function(name, package) {
  found <- new.env()
  data(list = name, package = package, envir = found)
  found[[name]]
}

# Fixed decimals give the text the data were published with. The check keeps the rounding honest: it may
# remove binary noise (fgl$RI carries some below 1e-12) and nothing else.
fixed <- function(values, decimals) {
  text <- sprintf("%.*f", decimals, round(values, decimals) + 0)  # + 0 turns -0 into 0
  error <- max(abs(as.numeric(text) - values))
  if (error > 1e-11) {
    stop("expected values of ", decimals, " decimals, got some that change by ", error, " when written so.")
  }
  text
}

# `decimals` names the numeric columns in file order; all other columns are written as they print.
write_table <- function(table, decimals, file, rows) {
  stopifnot(nrow(table) == rows, !anyNA(table), names(decimals) %in% names(table))
  text <- lapply(names(table), function(column) {
    if (column %in% names(decimals)) fixed(table[[column]], decimals[[column]]) else as.character(table[[column]])
  })
  lines <- c(paste(names(table), collapse = ","), do.call(paste, c(text, sep = ",")))
  connection <- file(file.path(folder, file), open = "wb")  # binary: LF line ends on every platform
  on.exit(close(connection))
  writeLines(lines, connection, sep = "\n")
  cat(sprintf("%-20s %3d rows %2d columns\n", file, nrow(table), ncol(table)))
}

# Evaluates the one assignment to `rand` in the script and nothing else of it.
fold_from_script <- function() {
  script <- system.file("scripts", "ch12.R", package = "MASS", mustWork = TRUE)
  assignments <- Filter(function(call) {
    is.call(call) && identical(call[[1]], as.name("<-")) && identical(call[[2]], as.name("rand"))
  }, as.list(parse(script, keep.source = FALSE)))
  if (length(assignments) != 1) {
    stop("expected one assignment to `rand` in ", script, ", got ", length(assignments), ".")
  }
  as.integer(eval(assignments[[1]][[3]], baseenv()))
}

sonar <- from_package("Sonar", "mlbench")
names(sonar) <- c(paste0("x", 1:60), "label")
sonar_decimals <- setNames(rep(4, 60), names(sonar)[1:60])
write_table(sonar, sonar_decimals, "sonar.csv", rows = 208)

crabs <- from_package("crabs", "MASS")
write_table(crabs, c(FL = 1, RW = 1, CL = 1, CW = 1, BD = 1), "crabs.csv", rows = 200)

pima_decimals <- c(bmi = 1, ped = 3)
write_table(from_package("Pima.tr", "MASS"), pima_decimals, "pima_train.csv", rows = 200)
write_table(from_package("Pima.te", "MASS"), pima_decimals, "pima_test.csv", rows = 332)

glass <- from_package("fgl", "MASS")
glass$fold <- fold_from_script()
stopifnot(setequal(glass$fold, 1:10))
glass_decimals <- setNames(rep(2, 9), c("RI", "Na", "Mg", "Al", "Si", "K", "Ca", "Ba", "Fe"))
write_table(glass, glass_decimals, "forensic_glass.csv", rows = 214)

cat(R.version.string, "; MASS ", format(packageVersion("MASS")),
    "; mlbench ", format(packageVersion("mlbench")), "\n", sep = "")
