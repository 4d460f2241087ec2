"""A run from settings to run directory: its passes, what they measured, many runs, what the machine can do."""
