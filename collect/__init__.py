"""Run one instrumented workload and leave a run directory.

Nothing is here yet: this release analyses traces that other tools captured.
"""
