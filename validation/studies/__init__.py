"""Studies of what the approximations are worth, beyond the papers' own tables."""
