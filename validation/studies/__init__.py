"""The studies behind ``make validate``: approximations against exact truths, each cut into tasks that are cached."""
