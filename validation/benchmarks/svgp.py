"""A scalable variational Gaussian process (SVGP) by GPflow, trained by Adam on parts of the cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bayesgp_mf.types import Array
from validation.benchmarks.problems import SEED, Data

BATCH = 1000
RATE = 0.05
"""Adam's learning rate at first; it falls to zero as a cosine, after which scores are better than with any constant."""
CHECKPOINTS = 20
BLOCK = 4000
"""Cases that are predicted at once."""
JITTER = 1e-5
"""Of single precision; GPflow's own, 1e-6, is for double."""


def svgp(data: Data, points: int, steps: int) -> Iterator[Callable[[Array], Array]]:
    """Train so many steps, the inducing points from random cases on, and yield a function that predicts now and then.

    All is in single precision, at half the time of GPflow's double, and with the same scores.
    """
    import gpflow
    import tensorflow as tf

    gpflow.config.set_default_float(np.float32)
    gpflow.config.set_default_jitter(JITTER)
    rng = np.random.default_rng(SEED)
    X, y = data.X.astype(np.float32), data.y.astype(np.float32)[:, None]
    n, d = X.shape
    kernel = gpflow.kernels.Matern32(lengthscales=np.full(d, np.sqrt(d)))
    first = X[rng.choice(n, points, replace=False)]
    model = gpflow.models.SVGP(kernel, gpflow.likelihoods.Bernoulli(), first, num_data=n)
    step = compiled_step(tf, model, steps)
    for count, cases in enumerate(batches(rng, n, steps), start=1):
        step(tf.constant(X[cases]), tf.constant(y[cases]))
        if count * CHECKPOINTS % steps < CHECKPOINTS:
            yield lambda X: predicted(model, X)


def compiled_step(tf: Any, model: Any, steps: int) -> Callable[[Any, Any], None]:
    """Return a function that makes one step of Adam on all parameters, positions of the points among them."""
    adam = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.CosineDecay(RATE, steps))

    @tf.function
    def step(X: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = model.training_loss((X, y))
        adam.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    return step


def batches(rng: np.random.Generator, n: int, steps: int) -> Iterator[Array]:
    """Yield the numbers of the cases of each step: a new shuffle of all whenever the last one is used up."""
    size, order = min(BATCH, n), np.empty(0, dtype=np.intp)
    for _ in range(steps):
        if order.size < size:
            order = rng.permutation(n)
        cases, order = order[:size], order[size:]
        yield cases


def predicted(model: Any, X: Array) -> Array:
    """Return probabilities of class 1 at inputs ``(m, d)``, block by block."""
    blocks = (X[first : first + BLOCK].astype(np.float32) for first in range(0, len(X), BLOCK))
    return np.concatenate([model.predict_y(block)[0].numpy()[:, 0] for block in blocks]).astype(np.float64)
