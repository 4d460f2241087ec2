"""The table waiting_call: by its definition, but for the kinds of waits that an input cannot have.

A definition of five kinds takes DuckDB longer to plan than its rows take to find, and most inputs have one or two.
"""

from ..read.staging import Staging

# When a view may have rows: of a call of such a name, or of work that begins long behind its launch.
KINDS = {
    "waits_synchronising": "exists (from waiting_name where synchronises is not null)",
    "waits_polling": "exists (from waiting_name where polls is not null)",
    "waits_freeing": "exists (from waiting_name where may_wait)",
    "waits_copying": "exists (from waiting_name where is_move) and exists (from memory_operation)",
    "waits_queueing": (
        "(select max(start_ns - launch_end_ns) from gpu_op semi join reading using (source_id)) "
        ">= 1000 * (select value from threshold where name = 'full_queue_cnt')"
    ),
}


def write(staging: Staging) -> None:
    """Fill the table for the source; its names must have been written."""
    (has,) = staging.database.rows(f"select {', '.join(KINDS.values())}")
    for view, has_rows in zip(KINDS, has, strict=True):
        if has_rows:
            staging.fill_from(view, "waiting_call", f"source_id = {staging.source_id}")
