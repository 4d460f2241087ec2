"""In which types a run computes, by their names: what loads no torch may ask, too."""


def of_base(dtype: str, device_type: str) -> str:
    """The type of the base and of its activations: of 'auto' bfloat16 on a GPU, float32 elsewhere."""
    if dtype != "auto":
        return dtype
    return "bfloat16" if device_type == "cuda" else "float32"


def of_products(dtype: str, autocast: str, device_type: str) -> str:
    """The type that products with the base are computed in: that of autocast, else the base's."""
    return autocast if autocast != "none" else of_base(dtype, device_type)
