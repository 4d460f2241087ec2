"""Stacks of functions in an nsys export: of samples of the CPU, of CUDA calls.

Both are rows of a table of call chains, one for each function; another table says whose chain it is:

    COMPOSITE_EVENTS             id, start, globalTid                      SAMPLING_CALLCHAINS    id, stackDepth, symbol
    CUPTI_ACTIVITY_KIND_RUNTIME  callchainId, globalTid, correlationId     CUDA_CALLCHAINS        id, stackDepth, symbol
"""

from ...errors import CorruptInputError
from .nsys_loading import Load, load_table
from .nsys_tables import Export, Table
from .staging import Staging

_FRAME = ("id", "symbol", "module", "stackDepth"), ("unresolved", "specialEntry")
_SAMPLES = Load(Table("COMPOSITE_EVENTS", ("id", "start", "globalTid")), "nsys_sample", "sample")
_SAMPLED = Load(Table("SAMPLING_CALLCHAINS", *_FRAME), "nsys_sampled_frame", "sampled_frame", is_chosen=True)
_CALLS = Load(
    Table("CUPTI_ACTIVITY_KIND_RUNTIME", ("callchainId", "globalTid", "correlationId", "nameId")),
    "nsys_call_stack", "call_stack", is_chosen=True, is_noted=False,
)  # fmt: skip
_CHAINS = Load(Table("CUDA_CALLCHAINS", *_FRAME), "nsys_chain_frame", "chain_frame", is_chosen=True)


def read(export: Export, staging: Staging) -> None:
    """Load the stacks that a file has."""
    staging.define("is_function", "stack_depth, symbol, module, special_entry", "is_function")
    _read_samples(export, staging)
    _read_calls(export, staging)


def _read_samples(export: Export, staging: Staging) -> None:
    """What the CPU ran whenever nsys looked, which it does unless told otherwise."""
    if not _has(export, _SAMPLES):
        return
    staging.create_table("sample", "sample_id bigint, thread_id bigint, start_ns bigint")
    try:
        load_table(export, _SAMPLES, staging)
        if _SAMPLED.table.name in export.columns:
            load_table(export, _SAMPLED, staging)
    except CorruptInputError as error:  # nothing else hangs on them
        staging.fact("lost", _SAMPLES.table.name, str(error))
    staging.load("nsys_sample_alone", "sampled_frame")
    if staging.scalar("select exists (from sample)"):
        staging.fact("holds", "samples of the CPU", staging.scalar("select count(*) from sample"), "sample_summary")
    staging.drop("sample")


def _read_calls(export: Export, staging: Staging) -> None:
    """What called CUDA, of the calls that nsys was asked for (nsys profile --cudabacktrace)."""
    if not (_has(export, _CALLS) and _has(export, _CHAINS) and export.size(_CHAINS.table.name)):
        return
    staging.create_table("call_stack", "stack_id bigint, thread_id bigint, correlation_id bigint, api_name_id bigint")
    staging.create_table(
        "chain_frame", "stack_id bigint, depth integer, name_id bigint, api_name_id bigint, module_id bigint"
    )
    try:
        load_table(export, _CALLS, staging)
        load_table(export, _CHAINS, staging)
    except CorruptInputError as error:  # nothing else hangs on them
        staging.fact("lost", _CHAINS.table.name, str(error))
    staging.load("nsys_call_frame", "call_frame")
    of_this = "from call_frame semi join reading using (source_id)"
    if count := staging.scalar(f"select count(distinct (thread_id, correlation_id)) {of_this}"):
        staging.fact("holds", "stacks of CUDA calls", count, "call_stack_summary")
    staging.drop("call_stack", "chain_frame")


def _has(export: Export, load: Load) -> bool:
    return {column.lower() for column in load.table.needed} <= export.columns.get(load.table.name, {}).keys()
