"""Why a file holds no GPU work: nothing was launched, or what was launched was not collected."""

from .staging import Staging

# What CUDA returns once a context is lost; nothing of it is collected then.
LOST_CONTEXT = {
    214: "cudaErrorECCUncorrectable", 700: "cudaErrorIllegalAddress", 702: "cudaErrorLaunchTimeout",
    710: "cudaErrorAssert", 714: "cudaErrorHardwareStackError", 715: "cudaErrorIllegalInstruction",
    716: "cudaErrorMisalignedAddress", 717: "cudaErrorInvalidAddressSpace", 718: "cudaErrorInvalidPc",
    719: "cudaErrorLaunchFailure",
}  # fmt: skip
_GIVING = "select count(*) from staged_api_call join staged_name using (name_id) where gives_work(text)"


def giving_cnt(staging: Staging) -> int:
    """How many staged calls give the GPU work: launches, copies and memsets."""
    staging.columns("staged_api_call")
    return int(staging.scalar(_GIVING))


def why(calls: int, until: str, failed: tuple[str, int] | None = None) -> str:
    """Why nothing is there that so many calls launched; `until` is how to wait for it while it is recorded.

    `failed` is the first call that found the context lost, and what it returned.
    """
    given = f"{calls:,} calls that give the GPU work are" if calls > 1 else "a call that gives the GPU work is"
    begin = f"{given} there, but not what {'they' if calls > 1 else 'it'} launched: "
    if failed is not None:
        name, code = failed
        return f"{begin}the program failed, as {name} returned {code} ({LOST_CONTEXT[code]})"
    return (
        f"{begin}the recording ended before that was collected ({until}), or CUPTI gave none (it does not fit the "
        "driver, or another profiler was attached)"
    )
