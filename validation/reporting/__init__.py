"""What every job here is reported with: a page, verdicts on numbers, figures, and the versions they were made with."""
