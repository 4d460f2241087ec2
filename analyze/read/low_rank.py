"""LoRA layers in traces that do not name them: ranges around the products whose shapes and order show them."""

from .staging import Staging

_NAMED = r"(^|[./])(lora_[AB]|lora_embedding_[AB])([./]|$)"


def add_ranges(staging: Staging) -> None:
    """Stage ranges linear KxN/base, lora_A and lora_B, which the file does not hold; none where it names such itself.

    Ranges must have been staged whole (Staging.columns). A fact says what was found.
    """
    is_named, has_shapes = staging.database.rows(
        f"""select
            coalesce(bool_or(regexp_matches(text, '{_NAMED}')), false),
            coalesce(bool_or(text in ('aten::linear', 'aten::mm', 'aten::addmm')), false)
                and exists (from staged_range where shape_id is not null)
        from staged_name"""
    )[0]
    if is_named or not has_shapes:
        return
    staging.create_from("low_rank_part", "low_rank_part")
    layers, ranks = staging.database.rows(
        """select count(*) filter (part = 'base'), array_to_string(list_sort(list_distinct(list(rank))), ', ')
        from low_rank_part"""
    )[0]
    if layers:
        staging.create_from("low_rank_range", "low_rank_range")
        staging.intern("select name from low_rank_range")
        staging.insert(
            """select reading.source_id, 'annotation' as kind, 'Complete' as style, low_rank_range.* exclude (name),
                -1 as position, staged_name.name_id as text_id, false as is_backward
            from low_rank_range
            cross join reading
            join staged_name on staged_name.text = low_rank_range.name
            order by thread_id, start_ns""",
            "staged_range",
        )  # before whatever has the same extent: around it
        staging.drop("low_rank_range")
        staging.columns("staged_range")
        staging.fact(
            "holds", "LoRA by shapes", f"rank {ranks}",
            f"{layers} products beside narrow ones: ranges linear KxN/base, lora_A, lora_B are lorabench's own",
        )  # fmt: skip
    staging.drop("low_rank_part")
