"""Gram matrices and what sites make of them: the only factorisations. Solvers and processes look inside."""
