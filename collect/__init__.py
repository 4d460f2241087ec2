"""Runs one instrumented workload and leaves a run directory."""
