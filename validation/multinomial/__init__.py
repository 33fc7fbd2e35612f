"""The multinomial probit at fixed hyperparameters, held against recorded NUTS on forensic glass and wine.

``python -m validation.multinomial.record`` samples the references, which `compare` and the tests read. `gibbs` is a
second sampler of the same posterior, which shares no code with it.
"""
