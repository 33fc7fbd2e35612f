"""What the approximations are held against: chains of NUTS by PyMC, and what ArviZ says of their draws."""
