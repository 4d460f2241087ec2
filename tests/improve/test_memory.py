"""What becomes of the peak of memory, against sizes worked out by hand, and the run that shows what it is good for."""

import dataclasses
from typing import Any

import pytest
from lorabench.collect.improve import memory_model, shown
from lorabench.collect.improve.measured import Failure, Measured
from lorabench.collect.improve.memory_model import Peak
from lorabench.collect.improve.rounds import Course
from lorabench.collect.settings.spec import RunSpec, from_dict

# tiny has 2 layers of 64; rows of 8 x 128 tokens
CATEGORIES = {"parameter": 1000.0, "adapter_parameter": 40.0, "gradient": 40.0, "optimizer_state": 80.0, "input": 20.0,
              "activation": 600.0, "temporary": 100.0, "autograd_detail": 80.0}  # fmt: skip
PEAK = Peak(
    sum(CATEGORIES.values()), CATEGORIES, layers=500, layer_cnt=2, recomputed=250, loss=120, largest_state=65536
)
SPEC = from_dict({"lora_cnt": 4, "gradient_checkpointing": "none"})
INPUT = 8 * 128 * 64 * 4


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        ("keep_all", 250), ("keep_inputs", -250 + 2 * INPUT), ("fewer_rows", -400),
        ("half_base", -(1000 / 2 + 800 / 4)),
        ("half_adapters", -80), ("quarter_state", -60), ("chunked_loss", 0), ("nf4_base", None), ("", None),
    ],
)  # fmt: skip
def test_what_a_rule_makes_of_the_peak(rule: str, more: float | None) -> None:
    assert memory_model.more_bytes(rule, PEAK, SPEC) == more


def test_what_is_kept_in_other_bits_becomes_no_half() -> None:
    packed, whole = (from_dict({"method": method}) for method in ("qlora", "full"))
    assert memory_model.more_bytes("half_base", PEAK, packed) == -800 / 4  # adapters keep what they get in 32 bits
    assert memory_model.more_bytes("half_base", PEAK, whole) == -(1000 + 800) / 2


def test_logits_of_a_piece_remain() -> None:
    longer = dataclasses.replace(SPEC, batch_size=(8,), seq_len=512)
    assert memory_model.more_bytes("chunked_loss", PEAK, longer) == -120 * (1 - 1024 / (8 * 512))


def test_small_tensors_keep_their_optimizer_state_in_32_bits() -> None:
    assert memory_model.more_bytes("quarter_state", dataclasses.replace(PEAK, largest_state=4096), SPEC) == 0


def test_more_rows_grow_what_belongs_to_rows() -> None:
    assert memory_model.more_bytes("more_rows", PEAK, dataclasses.replace(SPEC, grad_accum=(4,))) == 3 * 800


def test_an_adapter_takes_its_own_and_in_one_pass_its_rows() -> None:
    assert memory_model.with_adapters(PEAK, SPEC, 6) == PEAK.total + 2 * 160 / 4
    batch = dataclasses.replace(SPEC, peft_mode="batch")
    assert memory_model.with_adapters(PEAK, batch, 6) == PEAK.total + 2 * (160 + 800) / 4
    assert memory_model.with_longer(PEAK, 2) == PEAK.total + 800


class Lab:
    """Measures a peak, or runs out of memory."""

    def __init__(self, found: Measured | Failure):
        self.found, self.specs = found, list[RunSpec]()

    def measure(self, spec: RunSpec, name: str) -> Measured | Failure:
        self.specs.append(spec)
        return self.found

    def is_spent(self) -> bool:
        return False


def course(start: float, end: float, **settings: Any) -> Course:
    spec = dataclasses.replace(SPEC, peft_mode="batch", **settings)
    measured = [Measured(1, 2, 3, 5, peak_bytes=peak) for peak in (start, end)]
    return Course(SPEC, measured[0], spec, measured[1])


def test_as_many_adapters_as_fit_are_run_but_no_more_than_four_times_as_many() -> None:
    lab: Any = Lab(Measured(1, 2, 3, 5, peak_bytes=2700.0))
    found = shown.show(course(PEAK.total + 750, PEAK.total), "adapters", PEAK, lab, None)
    assert found is not None and (found.fit_cnt, lab.specs[0].lora_cnt) == (7, 7)  # 240 bytes each
    assert found.predicted_bytes == PEAK.total + 3 * 240 and found.error_frac == pytest.approx(2680 / 2700 - 1)
    found = shown.show(course(0, PEAK.total), "adapters", PEAK, lab, PEAK.total + 240_000)
    assert found is not None and (found.fit_cnt, found.what) == (1004, "16 adapters")


@pytest.mark.parametrize(
    ("goal", "peak", "made", "why"),
    [
        ("adapters", PEAK, course(PEAK.total, PEAK.total), "the peak is not below that of the start"),
        ("memory", None, course(1, 1), "no memory was recorded"),
        ("adapters", PEAK, course(PEAK.total + 750, PEAK.total, rank=(8, 8, 8, 16)), "--rank has 4 values for 7"),
    ],
)  # fmt: skip
def test_why_nothing_more_was_run(goal: str, peak: Peak | None, made: Course, why: str) -> None:
    lab: Any = Lab(Failure("oom", "out of memory"))
    found = shown.show(made, goal, peak, lab, None)
    assert found is not None and found.why.startswith(why) and lab.specs == []


def test_sequences_twice_as_long_that_do_not_fit_are_a_result() -> None:
    lab: Any = Lab(Failure("oom", "out of memory"))
    found = shown.show(course(9000, 1960), "memory", PEAK, lab, None)
    assert found is not None and (found.what, found.why) == ("sequences of 256 tokens", "out of memory")
    assert shown.show(course(9000, 1960), "time", PEAK, lab, None) is None
