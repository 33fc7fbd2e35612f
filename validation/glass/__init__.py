"""Forensic glass, six classes: the approximations of a softmax process held against recorded NUTS.

``python -m validation.glass.record_softmax`` samples the reference; ``tests/validation/test_glass.py`` and the table
``glass_1996_table_2`` read what it recorded.
"""
