"""The tables and figures of the papers, regenerated: ``make tables`` or ``python -m validation.tables``.

One script for each table or figure. Each has ``make(advance)``, which returns a `paper_table.PaperTable`,
and is a command of its own. ``__main__`` lists them and runs them all.
"""
