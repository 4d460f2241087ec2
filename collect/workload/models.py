"""Builds the base model of a run: preset or checkpoint, type, quantization, activation checkpointing."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import InputError, UsageError, first_line
from ..instruments.adapter_parts import is_adapted
from ..instruments.ranges import checkpoint_contexts
from ..settings import dtypes
from ..settings.presets import HEADS, PRESETS
from ..settings.quants import GPTQ
from ..settings.spec import RunSpec
from ..settings.tasks import SST2
from .quantised import BITSANDBYTES, quantise

_OF_TOKENIZERS = ("tokenizer*", "vocab*", "merges.txt", "*.model", "*.tiktoken")
_NO_TOKENIZER = "it has no tokenizer"
_OF_WEIGHTS = ("*.safetensors", "*.bin", "*.index.json", "*.gguf", "*.pt", "*.pth", "*.h5", "*.msgpack")


def choose_device(spec: RunSpec) -> torch.device:
    """The device of a run; a GPU with its number, as the devices of tensors have it: 'cuda' is not 'cuda:0' there.

    Raises UsageError when it asks for a GPU that torch does not see.
    """
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(usual if spec.device == "auto" else spec.device)
    if device.type != "cuda":
        return device
    device = torch.device("cuda", device.index or 0)
    if device.index >= torch.cuda.device_count():
        raise UsageError(
            f"--device {spec.device}: torch {torch.__version__} sees {torch.cuda.device_count()} GPUs; "
            "`lorabench doctor` says what is missing"
        )
    return device


def product_dtype(spec: RunSpec, device: torch.device) -> torch.dtype:
    """The type that products with the base are computed in: that of autocast, else the base's."""
    found: torch.dtype = getattr(torch, dtypes.of_products(spec.dtype, spec.autocast, device.type))
    return found


def choose_dtype(spec: RunSpec, device: torch.device) -> torch.dtype:
    """The type of the base and of its activations."""
    found: torch.dtype = getattr(torch, dtypes.of_base(spec.dtype, device.type))
    return found


def build(spec: RunSpec, device: torch.device) -> nn.Module:
    """The base model on the device, frozen unless the whole of it is trained, in training mode.

    Random weights follow from the seed. Raises InputError when a checkpoint cannot be loaded.
    """
    torch.manual_seed(spec.seed)
    dtype = choose_dtype(spec, device)
    model: nn.Module = (
        _from_preset(spec, device, dtype) if spec.model in PRESETS else _from_checkpoint(spec, device, dtype)
    )
    config: Any = model.config
    config.use_cache = False
    if spec.task == SST2 and getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = 0  # decoders read the class off the last token that is no padding
    if spec.has_adapters:
        model.requires_grad_(False)
    if spec.quantisation not in ("none", *GPTQ) and not _is_quantised(model):
        quantise(model, spec.quantisation, dtype, device)
    checkpoint(model, spec)
    model.train()
    return model


def is_classifier(model: nn.Module) -> bool:
    """Whether the model gives one class to a sequence."""
    return "SequenceClassification" in type(model).__name__


def _from_preset(spec: RunSpec, device: torch.device, dtype: torch.dtype) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

    preset = PRESETS[spec.model]
    config = AutoConfig.for_model(preset.model_type, **preset.settings)
    if spec.seq_len > config.max_position_embeddings:
        raise UsageError(f"--seq-len {spec.seq_len} is above the {config.max_position_embeddings} of {spec.model}")
    is_causal = preset.task == "causal" and spec.task != SST2
    kind: Any = AutoModelForCausalLM if is_causal else AutoModelForSequenceClassification
    with device:
        return kind.from_config(config, dtype=dtype, **_attention(spec))


def outline(spec: RunSpec) -> nn.Module | None:
    """The model without weights, of its configuration on this machine, for names of layers; None if that is not here.

    Raises InputError for a configuration that cannot be read.
    """
    nowhere = torch.device("meta")
    if spec.model in PRESETS:
        model: nn.Module = _from_preset(spec, nowhere, torch.float32)
        return model
    if not Path(spec.model).is_dir() or spec.quantisation in GPTQ:
        return None
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(spec.model)
        with nowhere:
            made: nn.Module = _class_for(config, spec).from_config(config)
            return made
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        raise InputError(f"cannot load --model {spec.model}: {str(error).splitlines()[0]}") from error


def _class_for(config: Any, spec: RunSpec) -> Any:
    """Transformers' class that a checkpoint is loaded as."""
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    made_for = " ".join(config.architectures or ())  # a masked language model is trained as a classifier here
    has_classes = spec.task == SST2 or "SequenceClassification" in made_for or "MaskedLM" in made_for
    return AutoModelForSequenceClassification if has_classes else AutoModelForCausalLM


def _attention(spec: RunSpec) -> dict[str, str]:
    """What transformers is told of the implementation of attention."""
    names = {"auto": {}, "flash": {"attn_implementation": "flash_attention_2"}}
    return names.get(spec.attention, {"attn_implementation": spec.attention})


def is_configuration(model: str) -> bool:
    """Whether a model is a folder with a configuration and no weights: it gets random ones, which cost the same."""
    folder = Path(model)
    return (
        model not in PRESETS
        and folder.is_dir()
        and not any(path for pattern in _OF_WEIGHTS for path in folder.glob(pattern))
    )


def _from_checkpoint(spec: RunSpec, device: torch.device, dtype: torch.dtype) -> Any:
    from transformers import AutoConfig

    options: dict[str, Any] = {"dtype": dtype, "device_map": {"": device}} | _attention(spec)
    try:
        config = AutoConfig.from_pretrained(spec.model)
        kind = _class_for(config, spec)
        if is_configuration(spec.model) and spec.quantisation not in GPTQ:
            with device:
                model = kind.from_config(config, dtype=dtype, **_attention(spec))
        else:
            if spec.quantisation in (*BITSANDBYTES, *GPTQ):
                options["quantization_config"] = _quantisation(spec, dtype, "SequenceClassification" in kind.__name__)
            model = kind.from_pretrained(spec.model, **options)
        if spec.quantisation in GPTQ and not hasattr(model, "quantization_method"):
            raise ValueError("it is not quantized by GPTQ")
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        hint = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise InputError(
            f"cannot load --model {spec.model}{hint}: {str(error).splitlines()[0]}; "
            f"give a folder, a hub id or one of {', '.join(PRESETS)}"
        ) from error
    _check_positions(model, spec)
    return model


def _quantisation(spec: RunSpec, dtype: torch.dtype, has_classes: bool) -> Any:
    """What transformers quantizes by; the head of a classifier is trained, so it stays as it is."""
    from transformers import BitsAndBytesConfig, GPTQConfig

    if spec.quantisation in GPTQ:
        os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # 7.7.0 takes fewer on small machines, and then refuses
        return GPTQConfig(bits=4, backend=GPTQ[spec.quantisation])
    kept = list(HEADS) if has_classes else None
    if spec.quantisation == "nf4":
        return BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype,
            llm_int8_skip_modules=kept,
        )  # fmt: skip
    return BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0, llm_int8_skip_modules=kept)


def _check_positions(model: nn.Module, spec: RunSpec) -> None:
    """Raise UsageError for sequences longer than a table of positions that the model has learned."""
    for name, module in model.named_modules():
        is_table = isinstance(module, nn.Embedding) and ("position" in name or name.endswith("wpe"))
        if is_table and spec.seq_len > module.num_embeddings:
            raise UsageError(f"--seq-len {spec.seq_len} is above the {module.num_embeddings} positions of {spec.model}")


def load_tokenizer(spec: RunSpec) -> tuple[Any, str]:
    """The tokenizer of a checkpoint, or None and why it has none; presets, which have no words, need no reason."""
    if spec.model in PRESETS or spec.data == "synthetic" or spec.batch:
        return None, ""
    folder = Path(spec.model)
    if folder.is_dir() and not any(path for pattern in _OF_TOKENIZERS for path in folder.glob(pattern)):
        return None, _NO_TOKENIZER
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(spec.model)
    except (OSError, ValueError, ImportError) as error:
        said = first_line(error)
        return None, f"its tokenizer cannot be loaded ({said})"
    # of a folder without a vocabulary transformers makes a tokenizer to which every word is unknown
    if len(found) <= len(found.all_special_tokens):
        return None, _NO_TOKENIZER
    return found, ""


def _is_quantised(model: nn.Module) -> bool:
    return bool(getattr(model, "is_loaded_in_4bit", False) or getattr(model, "is_loaded_in_8bit", False))


def without_adapters(model: nn.Module) -> list[nn.Module]:
    """What stands beside the adapted modules in a decoder's layers: norms, and blocks such as an MLP."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    found: list[nn.Module] = []
    for name, module in model.named_modules():
        is_layer = name.rsplit(".", 1)[-1].isdigit() and isinstance(module, GradientCheckpointingLayer)
        found += [part for part in module.children() if _is_apart(part)] if is_layer else []
    return found


def _is_apart(module: nn.Module) -> bool:
    inside = list(module.modules())
    if any(is_adapted(m) for m in inside) or isinstance(module, nn.Linear | nn.Dropout | nn.Identity):
        return False
    linear = [m for m in inside if isinstance(m, nn.Linear)]  # quantized ones have a class or weights of their own
    return all(type(m) is nn.Linear and type(m.weight) is nn.Parameter for m in linear)


def checkpoint(model: Any, spec: RunSpec) -> None:
    """Turn activation checkpointing on, as the spec says."""
    if spec.gradient_checkpointing == "layer":
        kwargs: dict[str, Any] = {"use_reentrant": spec.reentrant}
        if spec.cuda_graph:
            kwargs["preserve_rng_state"] = False  # which cannot be read while recording; nothing draws from it
        if not spec.reentrant and not spec.is_compiled:  # compiled graphs have no ranges, and refuse contexts
            kwargs["context_fn"] = checkpoint_contexts
        # transformers 5.17 has the second name alone, 5.23 has both and warns of the second
        current = getattr(model, "activation_checkpointing_enable", None)
        (current or model.gradient_checkpointing_enable)(kwargs)
        if spec.reentrant:  # else nothing that enters a layer needs a gradient, and its backward never runs
            model.enable_input_require_grads()
    elif spec.gradient_checkpointing == "attn-mlp":
        from torch.distributed._composable.checkpoint_activation import checkpoint as checkpointed

        parts = [m for n, m in model.named_modules() if n.rsplit(".", 1)[-1] in ("self_attn", "mlp")]
        if len({n.rsplit(".", 1)[-1] for n, _ in model.named_modules()} & {"self_attn", "mlp"}) < 2:
            raise UsageError(f"--gradient-checkpointing attn-mlp: {spec.model} has not both self_attn and mlp")
        for part in parts:
            options: dict[str, Any] = {} if spec.is_compiled else {"context_fn": checkpoint_contexts}
            checkpointed(part, **options, **({"preserve_rng_state": False} if spec.cuda_graph else {}))
