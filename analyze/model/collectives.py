"""The table collective: calls of torch, NCCL and gloo with their kernels, from the finished tables of one source."""

from ... import sql
from ..read.staging import Staging

# Names of ranges and kernels that say it; what torch says itself waits in staged_collective.
_IS_THERE = """
    select exists (from staged_collective)
        or exists (
            from name
            where regexp_matches(text, '^(gloo:|nccl:|NCCL:nccl)') or regexp_matches(text, {kernels}, 'i')
        )"""
_KERNELS = """
    select string_agg(pattern, '|') from kernel_class_rule where subject = 'kernel' and class = 'communication'"""


def write(staging: Staging) -> None:
    """Fill the table from what is staged, and from the ranges and the kernels of the source."""
    kernels = sql.literal(staging.scalar(_KERNELS))  # DuckDB compiles what is no literal for every name
    if staging.scalar(_IS_THERE.format(kernels=kernels)):
        staging.insert(sql.staging("collective_found"), "collective")
