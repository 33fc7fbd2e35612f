"""The boundary between what users give and ours: the only place that checks tables, labels and options.

Others look into `tables`, `frames`, `labels`, `groups`, `by_case`, `inducing`, `scales` and `options`, each for what
its name says.
"""
