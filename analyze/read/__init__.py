"""Files of profilers in, rows in the units of the model out: what inputs are, a reader for each format, and staging."""
