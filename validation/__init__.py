"""What proves the package: references that are computed another way, comparisons, and the report.

Run from the root of the repository, as ``python -m validation.pima``; not part of the installed package.
"""
