"""Architectures with random weights: speed and memory follow from shapes, so no download is needed to measure them.

Shapes are those of the published configurations (config.json of each model on its hub page).
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """A transformers configuration: its type, and what differs from the type's defaults."""

    model_type: str
    settings: dict[str, Any]
    task: str = "causal"


def _decoder(
    model_type: str, hidden: int, layers: int, heads: int, kv_heads: int, mlp: int, vocabulary: int, **more: Any
) -> Preset:
    return Preset(
        model_type,
        {
            "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "intermediate_size": mlp, "vocab_size": vocabulary,
            "max_position_embeddings": 4096, **more,
        },
    )  # fmt: skip


PRESETS = {
    "tiny": _decoder("llama", 64, 2, 4, 2, 128, 256, max_position_embeddings=2048),
    "tinyllama-1.1b": _decoder("llama", 2048, 22, 32, 4, 5632, 32000),
    "llama-2-7b": _decoder("llama", 4096, 32, 32, 32, 11008, 32000),
    "llama-2-13b": _decoder("llama", 5120, 40, 40, 40, 13824, 32000),
    "qwen2.5-1.5b": _decoder("qwen2", 1536, 28, 12, 2, 8960, 151936, tie_word_embeddings=True),
    "qwen2.5-7b": _decoder("qwen2", 3584, 28, 28, 4, 18944, 152064, tie_word_embeddings=False),
    "mistral-7b": _decoder("mistral", 4096, 32, 32, 8, 14336, 32000, sliding_window=None),
    "distilbert": Preset("distilbert", {"num_labels": 2}, "classification"),
    "tiny-distilbert": Preset(
        "distilbert",
        {"num_labels": 2, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 256},
        "classification",
    ),
}
# PEFT's names of the attention projections, by model type; q, k, v and o as in mLoRA's benchmark.
_BERT = ("query", "key", "value", "attention.output.dense")
ATTENTION = {
    "distilbert": ("q_lin", "k_lin", "v_lin", "out_lin"),
    "bert": _BERT,
    "roberta": _BERT,
    "gpt2": ("c_attn", "attn.c_proj"),
    "": ("q_proj", "k_proj", "v_proj", "o_proj"),
}
HEADS = ("lm_head", "classifier", "pre_classifier", "score")
