"""Hyperparameters by a Gaussian process that learns their density; only `hyper` looks inside."""
