"""The posterior of the hyperparameters on Pima: evidence and NUTS, against NUTS on everything at once.

``make hyperposterior`` draws by NUTS on the evidence of TAP and of Laplace's approximation, and holds both against a
recorded sample of the joint posterior of hyperparameters and latent values, in which nothing is approximated.
"""
