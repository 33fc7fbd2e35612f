"""How long things take and how much memory, as ratios within one run, beside other packages: ``make bench``."""
