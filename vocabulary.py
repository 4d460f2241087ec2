"""The words that readers write into the model and that SQL, reports and collect share.

A word lives here when two rooms of the house use it; SQL files repeat the literal and a test holds them equal.
"""

from typing import Final

# The kind of a range decides its hierarchy: python functions form a tree of their own.
RANGE_ANNOTATION: Final = "annotation"  # opened by a person: NVTX push/pop, record_function
RANGE_OPERATOR: Final = "operator"  # opened by PyTorch for an operator: cpu_op, emit_nvtx
RANGE_LIBRARY: Final = "library"  # opened by a library in its own NVTX domain: NCCL, cuBLAS
RANGE_PYTHON: Final = "python"  # a Python frame from with_stack=True
RANGE_KINDS: Final = (RANGE_ANNOTATION, RANGE_OPERATOR, RANGE_LIBRARY, RANGE_PYTHON)

OP_KERNEL: Final = "kernel"
OP_MEMCPY: Final = "memcpy"
OP_MEMSET: Final = "memset"
OP_GRAPH: Final = "graph"
OP_KINDS: Final = (OP_KERNEL, OP_MEMCPY, OP_MEMSET, OP_GRAPH)

# How GPU work found its range, first that applies.
RULES: Final = ("direct", "sequence", "window")

# How a collective was found, what it does, and how it was matched with those of other ranks.
COLLECTIVES_FOUND_BY: Final = ("record_param_comms", "gloo", "range", "library", "kernel")
COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather",
                      "scatter", "barrier", "send", "recv", "other")  # fmt: skip
MATCHED_BY: Final = ("comms_id", "seq", "place")

SOURCE_NSYS: Final = "nsys"
SOURCE_KINETO: Final = "kineto"
SOURCE_SNAPSHOT: Final = "snapshot"  # of torch's caching allocator

WHOLE_FILE: Final = "the whole file"  # the fact of an input that could not be read while others could
MADE_FOR_PERFETTO: Final = "lorabench report --perfetto"  # stands at the begin of what that writes

# What memory is for; from the most lasting purpose on, for storages that serve two.
MEMORY_PARAMETER: Final = "parameter"
MEMORY_ADAPTER: Final = "adapter_parameter"
MEMORY_OPTIMIZER: Final = "optimizer_state"
MEMORY_GRADIENT: Final = "gradient"
MEMORY_INPUT: Final = "input"
MEMORY_ACTIVATION: Final = "activation"
MEMORY_OWNED: Final = (
    MEMORY_PARAMETER, MEMORY_ADAPTER, MEMORY_OPTIMIZER, MEMORY_GRADIENT, MEMORY_INPUT, MEMORY_ACTIVATION
)  # fmt: skip
MEMORY_CATEGORIES: Final = (
    *MEMORY_OWNED, "forward_result", "temporary", "autograd_detail", "quantisation_workspace", "unknown"
)  # fmt: skip

# What `collect` opens ranges around, from the coarsest to the finest; each depth includes those before it.
RANGE_DEPTHS: Final = ("step", "phase", "layer", "module", "lora")
# What PEFT calls the parts of its layers besides the base, as a regular expression; hada and lokr alone are the product
# of their factors.
ADAPTER_PARTS: Final = (
    "lora_[ABE]|lora_embedding_[AB]|lora_magnitude_vector|vera_[AB]|vera_lambda_[bd]|ia3_l|oft_R|boft_[Rs]|"
    "hada|hada_[wt][12](?:_[ab])?|lokr|lokr_[wt][12](?:_[ab])?|hra_u|c3a_kernel|fourierft_spectrum|"
    "delora_[AB]|delora_lambda|hira_[AB]|road_alpha|road_theta|shira_weight|miss_block|"
    "randlora_[AB]|randlora_lambda|randlora_gamma|vblora_logits_[AB]|vblora_vector_bank"
)
# Settings of a run that are about its adapters: a full fine-tuning has none.
ADAPTER_SETTINGS: Final = (
    "lora_cnt", "peft_mode", "adapter_kind", "lora_plus_ratio", "rank", "alpha", "dropout", "target_modules"
)  # fmt: skip
# Settings that some kinds of --parallel have: with others they say nothing.
PARALLEL_SETTINGS: Final = {
    "pp_schedule": ("pp",),
    "micro_batches": ("pp", "lorapp"),
    "balance": ("pp", "lorapp"),
    "overlap": ("lorapp",),
    "cpu_offload": ("fsdp",),
}
# How a run is watched, each pass in a process of its own, in this order.
PASSES: Final = ("timing", "torch", "nsys", "memory")
PHASES: Final = ("data", "h2d", "forward", "backward", "optimizer")
