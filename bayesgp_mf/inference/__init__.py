"""What every solver sees and returns. All that solves, or reads a solution, looks inside."""
