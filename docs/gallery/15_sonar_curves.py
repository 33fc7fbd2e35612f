"""
The papers' sonar curves
========================

Mines against rocks, from 60 frequency bands. On this table Opper and Winther (2000, figure 2) compare the
leave-one-out estimate of mean-field theory with the test error. The estimate costs nothing: it comes with the
solution.
"""

import matplotlib.pyplot as plt
import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.methods import get_method

sonar = bgp.datasets.load_sonar()
t, mine = np.where(sonar.y == "M", 1, -1), sonar.y_test == "M"
widths = np.geomspace(0.02, 10.0, 40)  # tests: 0.02, 10.0, 3

# %%
# One kernel width for all inputs, no noise; TAP, and a support-vector machine, which is the same theory without
# variances.

errors = {(method, kind): [] for method in ("tap", "svm") for kind in ("test", "leave-one-out")}
evidence = []
for width in widths:
    kernel = bgp.kernels.Gaussian(lengthscale=np.sqrt(width * 60))
    problem = bgp.Problem(kernel.gram(sonar.X), t, bgp.Step())
    for method in ("tap", "svm"):
        solution = bgp.solve(problem.gram, t, bgp.Step(), method=method)
        decision = kernel.cross(sonar.X_test, sonar.X) @ solution.alpha > 0
        errors[method, "test"].append(np.sum(decision != mine))
        loo = get_method(method).leave_one_out(problem, solution)
        errors[method, "leave-one-out"].append(loo.error_count(t))
        if method == "tap":
            evidence.append(solution.evidence.value)
best = widths[np.argmax(evidence)]
print(f"highest log evidence {max(evidence):.1f} at a width of {best:.2f}")

# %%
# The test rows of this division are the easier ones, so the estimate lies above the test error, as in the paper.
# The evidence chooses a width by the training cases alone.

fig, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(5.2, 5.6), height_ratios=[2, 1])
fig.suptitle("Sonar: errors, leave-one-out and evidence by kernel width")
for (method, kind), count in errors.items():
    style = "-" if kind == "test" else "--"
    above.semilogx(widths, count, style, color="C0" if method == "tap" else "C1", label=f"{method.upper()}, {kind}")
above.set_ylabel("errors, of 104")
above.legend()
below.semilogx(widths, evidence, color="C0")
below.set(xlabel="kernel width σ²", ylabel="log evidence, nats")
for ax in (above, below):
    ax.axvline(best, color="k", linestyle=":")
fig.tight_layout()
plt.show()
