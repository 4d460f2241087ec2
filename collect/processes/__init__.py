"""Processes of a pass and the profiler around them: limits, ends, environments."""
