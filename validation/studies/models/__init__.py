"""Counts, proportions and measurements with outliers: posteriors beside NUTS, and predictions beside a Gaussian."""
