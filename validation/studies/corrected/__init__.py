"""What TAP leaves out, put right to second order: evidences of random problems and of tables, and probabilities."""
