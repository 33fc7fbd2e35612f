"""
A pipeline of scikit-learn, and cross-validation
================================================

``bgp.sklearn.GPClassifier`` is an estimator like any other: it goes into ``make_pipeline``, ``cross_val_predict``
and ``GridSearchCV``. Here it is compared with logistic regression on scikit-learn's breast-cancer table. The two are
equally good there, which shows that a linear model suffices for this table.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score, roc_curve
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesgp_mf as bgp

cases = 569  # tests: 120
X, malignant = load_breast_cancer(return_X_y=True)
X, malignant = X[:cases], 1 - malignant[:cases]

# %%
# Every fold scales and tunes anew, on its own training cases: the 30 length scales have priors by default.

models = {
    "Gaussian process": make_pipeline(StandardScaler(), bgp.sklearn.GPClassifier(random_state=1)),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
}
folds = StratifiedKFold(5, shuffle=True, random_state=1)
p = {
    name: cross_val_predict(model, X, malignant, cv=folds, method="predict_proba")[:, 1]
    for name, model in models.items()
}
for name, predicted in p.items():
    print(f"{name:20} log loss {log_loss(malignant, predicted):.3f}, AUC {roc_auc_score(malignant, predicted):.3f}")

# %%

fig, (above, below) = plt.subplots(2, 1, figsize=(5.2, 7))
fig.suptitle("Cross-validated ROC curves and calibration of two classifiers")
for name, predicted in p.items():
    false_positives, true_positives, _ = roc_curve(malignant, predicted)
    above.plot(false_positives, true_positives, label=name)
    seen, said = calibration_curve(malignant, predicted, n_bins=6, strategy="uniform")
    below.plot(said, seen, "o-", label=name)
above.set(xlabel="false positives", ylabel="true positives")
above.legend(loc="lower right")
below.axline((0, 0), slope=1.0, color="k", linestyle=":")
below.set(xlabel="predicted probability", ylabel="share that is malignant")
fig.tight_layout()
plt.show()
