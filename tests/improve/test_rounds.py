"""The rounds of an improvement on simulated machines: what is kept, what is a row, when it ends."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lorabench.collect.improve import rounds
from lorabench.collect.improve.candidates import Candidate
from lorabench.collect.improve.measured import Failure, Measured
from lorabench.collect.improve.rounds import DROPPED, FAILED, KEPT, REFUSED, UNDECIDED, UNTRIED, Asked, Prediction
from lorabench.collect.settings.spec import RunSpec
from lorabench.errors import RunError

START = RunSpec(lora_cnt=4, steps=5)
STEP, WIDTH = 100.0, 4.0
# changes of settings that go with one another in any order
SETTINGS: dict[str, dict[str, Any]] = {
    "batch": {"peft_mode": "batch"},
    "checkpointing none": {"gradient_checkpointing": "none"},
    "compile": {"compile": "inductor"},
    "sgd": {"optimizer": "sgd"},
    "chunked": {"loss": "chunked"},
}


def measured(step: float = STEP, width: float = WIDTH, **more: Any) -> Measured:
    values: dict[str, Any] = {"peak_bytes": 1000.0, "tokens": {"adapter_0": 640}, "losses": {"adapter_0": (5.5, 5.4)}}
    return Measured(step - width / 2, step, step + width / 2, 5, **values | more)


@dataclass
class Machine:
    """Takes so much of a step with each change, and predicts what it is told to."""

    factors: dict[str, float]
    predicted: dict[str, Prediction] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    alters: dict[str, str] = field(default_factory=dict)
    more: dict[str, dict[str, Any]] = field(default_factory=dict)  # what else a change measures
    settings: dict[str, dict[str, Any]] = field(default_factory=lambda: SETTINGS)
    slower: dict[str, float] = field(default_factory=dict)  # how busy the machine is in a run of this name
    budget: int = 1000
    ran: list[str] = field(default_factory=list)

    def measure(self, spec: RunSpec, name: str) -> Measured | Failure:
        self.ran.append(name)
        on = [change for change, own in self.settings.items() if change in self.factors and _has(spec, own)]
        if failing := next((self.failing[change] for change in on if change in self.failing), None):
            return Failure("oom", failing)
        step, other = STEP, dict[str, Any]()
        for change in on:
            step *= self.factors[change]
            other |= self.more.get(change, {})
        return measured(step * self.slower.get(name, 1.0), **other)

    def possible(self, spec: RunSpec) -> list[Candidate]:
        return [
            Candidate(name, self.settings[name], alters=self.alters.get(name, ""))
            for name in self.factors if not _has(spec, self.settings[name])
        ]  # fmt: skip

    def predict(self, spec: RunSpec, candidates: Sequence[Candidate]) -> list[Prediction]:
        return [self.predicted.get(c.name, Prediction(self.factors[c.name])) for c in candidates]

    def is_spent(self) -> bool:
        return len(self.ran) >= self.budget


def _has(spec: RunSpec, settings: dict[str, Any]) -> bool:
    return all(getattr(spec, name) == value for name, value in settings.items())


def improved(machine: Machine, goal: str = "time", most: int = 9, numerics: bool = False) -> rounds.Course:
    return rounds.improve(START, Asked(goal, most, numerics), machine)


def verdicts(course: rounds.Course) -> dict[str, str]:
    return {row.change: row.verdict for row in course.rows}


def row_of(course: rounds.Course, change: str) -> rounds.Row:
    return next(row for row in course.rows if row.change == change)


def test_what_promises_most_is_measured_first_and_what_gains_is_kept() -> None:
    machine = Machine({"sgd": 0.9, "batch": 0.5})
    course = improved(machine)
    assert [name for name in machine.ran if name.endswith(("batch", "sgd"))] == ["01-batch", "02-sgd"]
    assert verdicts(course) == {"batch": KEPT, "sgd": KEPT}
    assert course.spec == dataclasses.replace(START, peft_mode="batch", optimizer="sgd")
    assert course.end.median_ns == pytest.approx(45) and course.step_frac == pytest.approx(0.45)


def test_a_gain_within_the_spread_is_dropped_and_said_so() -> None:
    course = improved(Machine({"batch": 0.97}, {"batch": Prediction(0.5)}))
    row = row_of(course, "batch")
    assert (row.verdict, row.why) == (DROPPED, "the step is 3.0% shorter: within the spread")
    assert course.spec == START


def test_a_change_that_does_not_pay_is_dropped_with_what_it_cost() -> None:
    course = improved(Machine({"compile": 1.3}, {"compile": Prediction(bound_frac=0.4)}))
    assert row_of(course, "compile").why == "the step is 30.0% longer"
    assert row_of(course, "compile").error_frac is None  # a bound is no prediction


def test_a_step_below_its_bound_is_said_to_be_so() -> None:
    machine = Machine({"compile": 0.5, "sgd": 0.7}, {name: Prediction(bound_frac=0.7) for name in ("compile", "sgd")})
    course = improved(machine)
    assert row_of(course, "sgd").why == "the step is 30.0% shorter"
    assert row_of(course, "compile").why.startswith("the step is 50.0% shorter; less than it can be by the bound")


def test_what_begins_much_later_says_how_many_steps_make_up_for_it() -> None:
    before, after = measured(100e6, wall_s=10.0), measured(60e6, wall_s=49.8)
    assert rounds.judged(before, after, Asked("time", 1), "") == (
        KEPT, "the step is 40.0% shorter; it begins 40 s later, which 1,000 steps make up for"
    )  # fmt: skip
    assert rounds.judged(before, dataclasses.replace(after, wall_s=19.0), Asked("time", 1), "")[1] == (
        "the step is 40.0% shorter"
    )


def test_predictions_come_before_bounds_and_bounds_before_what_nobody_knows() -> None:
    machine = Machine(
        {"compile": 0.9, "sgd": 0.9, "batch": 0.9},
        {"compile": Prediction(), "sgd": Prediction(bound_frac=0.1), "batch": Prediction(0.8)},
    )
    improved(machine)
    assert [name for name in machine.ran if name.count("-") == 1] == ["00-start", "01-batch", "02-sgd", "03-compile"]


def test_what_is_predicted_to_gain_nothing_is_not_measured() -> None:
    machine = Machine({"batch": 0.5, "sgd": 0.9}, {"batch": Prediction(1.2), "sgd": Prediction(0.995)})
    course = improved(machine)
    assert machine.ran == ["00-start"]
    assert {row.why for row in course.rows} == {"no gain is predicted"}


def test_a_change_has_to_beat_what_it_replaces_measured_before_and_after_it() -> None:
    busy = Machine({"batch": 0.9}, slower={"00-start": 1.5})  # the start was measured while others worked
    assert verdicts(improved(busy)) == {"batch": KEPT}
    in_vain = Machine({"batch": 1.1}, {"batch": Prediction(0.5)}, slower={"00-start": 1.5})
    course = improved(in_vain)
    assert (row_of(course, "batch").verdict, row_of(course, "batch").why) == (DROPPED, "the step is 10.0% longer")


def test_the_error_of_a_prediction_is_against_the_step_measured_beside_it() -> None:
    machine = Machine({"batch": 0.5}, {"batch": Prediction(0.6)}, slower={"00-start": 1.2})
    row = row_of(improved(machine), "batch")
    assert row.predicted_step_ns == pytest.approx(0.6 * 100)  # the start was measured while others worked
    assert row.error_frac == pytest.approx(60 / 50 - 1)


def test_a_change_that_was_measured_while_others_worked_gets_a_second_chance() -> None:
    machine = Machine({"batch": 0.5}, slower={"01-batch": 2.5})
    course = improved(machine)
    assert machine.ran == ["00-start", "01-batch", "01-batch-against", "01-batch-again"]
    assert (verdicts(course)["batch"], course.end.median_ns) == (KEPT, 50)
    unknown = Machine({"batch": 0.5}, {"batch": Prediction()}, slower={"01-batch": 2.5})
    assert verdicts(improved(unknown)) == {"batch": DROPPED} and unknown.ran == ["00-start", "01-batch"]


def test_where_runs_of_the_same_settings_differ_by_more_than_the_gain_nothing_is_decided() -> None:
    """Half of the step is gained, on a machine that is three times as slow now and then."""
    busy = {"00-start": 1.4, "01-batch-against": 2.0, "01-batch-again": 2.9}
    course = improved(Machine({"batch": 0.5}, slower=busy))
    row = row_of(course, "batch")
    assert row.verdict == UNDECIDED and row.why.endswith(
        "; runs of the same settings differ by 190%: the machine is busy; repeat on a quiet one with --force"
    )
    assert course.stopped == "nothing else is left that promises a gain, and not decided: batch"
    # what is not repeated is judged by what is known of the start
    later = Machine({"batch": 0.5, "sgd": 1.0}, {"sgd": Prediction()}, slower=busy | {"02-sgd": 1.5})
    assert verdicts(improved(later)) == {"batch": UNDECIDED, "sgd": UNDECIDED}
    quiet = Machine({"batch": 0.5, "sgd": 1.0}, {"sgd": Prediction()})
    assert verdicts(improved(quiet)) == {"batch": KEPT, "sgd": DROPPED}


RUNS = ["00-start", "01-sgd", "01-sgd-against", "01-sgd-again", "01-sgd-against-2", "01-sgd-again-2"]


def test_what_runs_differ_by_is_no_gain() -> None:
    random, kept = Random(1), 0
    for _ in range(400):
        drawn = {name: random.gauss(1, 0.08) for name in RUNS}  # twice the width of a run's steps
        kept += verdicts(improved(Machine({"sgd": 1.0}, {"sgd": Prediction()}, slower=drawn)))["sgd"] == KEPT
    assert kept < 400 * 0.12  # a quarter where one run of it has to beat two


def test_a_small_gain_has_to_show_three_times() -> None:
    small, large = Machine({"sgd": 0.955}), Machine({"sgd": 0.9})
    assert verdicts(improved(small)) == verdicts(improved(large)) == {"sgd": KEPT}
    assert (small.ran, large.ran) == (RUNS, RUNS[:4])
    assert verdicts(improved(Machine({"sgd": 0.955}, slower={"01-sgd-again-2": 1.04}))) == {"sgd": DROPPED}


def test_a_round_that_fails_is_a_row_and_no_end() -> None:
    machine = Machine({"batch": 0.5, "sgd": 0.8}, failing={"batch": "out of memory (tried to allocate 2 GiB)"})
    course = improved(machine)
    assert verdicts(course) == {"batch": FAILED, "sgd": KEPT}
    assert row_of(course, "batch").why.startswith("out of memory")


def test_settings_that_contradict_each_other_are_a_row_and_cost_no_round() -> None:
    settings = SETTINGS | {"sgd": {"optimizer": "sgd", "weight_decay": 0.5}}
    machine = Machine({"sgd": 0.5, "batch": 0.8}, settings=settings)
    course = improved(machine, most=1)
    assert (
        row_of(course, "sgd").verdict == REFUSED
        and "--weight-decay applies to the kinds of adamw" in row_of(course, "sgd").why
    )
    assert verdicts(course)["batch"] == KEPT


def test_a_start_that_fails_ends_it() -> None:
    machine = Machine({"batch": 0.5}, failing={"batch": "out of memory"})
    with pytest.raises(RunError, match="does not end well: out of memory"):
        rounds.improve(dataclasses.replace(START, peft_mode="batch"), Asked("time", 3), machine)


def test_what_alters_the_training_needs_to_be_allowed() -> None:
    machine = Machine({"sgd": 0.5}, alters={"sgd": "the optimizer"})
    course = improved(machine)
    assert (row_of(course, "sgd").verdict, row_of(course, "sgd").why) == (
        UNTRIED, "alters the optimizer: needs --allow-numerics"
    )  # fmt: skip
    assert verdicts(improved(machine, numerics=True)) == {"sgd": KEPT}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"losses": {"adapter_0": (5.5, 5.3)}}, "another loss: adapter_0 is 1.9e-02 off in step 1, 1e-03 is allowed"),
        ({"losses": {"adapter_0": (5.5,)}}, "losses of other adapters or steps were noted"),
        ({"losses": {}}, "losses of other adapters or steps were noted"),
        (
            {"losses": {"adapter_0": (5.5, 5.4), "adapter_1": (5.5, 5.4)}},
            "losses of other adapters or steps were noted",
        ),
        ({"losses": {"adapter_0": (5.5, float("nan"))}}, "another loss: adapter_0 is inf off in step 1"),
        ({"tokens": {"adapter_0": 320}}, "other tokens or updates were computed"),
    ],
)
def test_a_run_that_computes_something_else_is_never_kept(other: dict[str, Any], why: str) -> None:
    course = improved(Machine({"batch": 0.5}, more={"batch": other}))
    assert row_of(course, "batch").verdict == DROPPED and row_of(course, "batch").why.startswith(why)


def test_losses_in_16_bits_may_differ_by_more() -> None:
    other = {"losses": {"adapter_0": (5.5, 5.43)}}
    assert verdicts(improved(Machine({"batch": 0.5}, more={"batch": other})))["batch"] == DROPPED
    other["dtype"] = "bfloat16"  # type: ignore[assignment]
    assert verdicts(improved(Machine({"batch": 0.5}, more={"batch": other})))["batch"] == KEPT


def test_a_step_of_other_tokens_is_timed_for_as_many() -> None:
    packed = Machine({"chunked": 1.5}, {"chunked": Prediction()}, more={"chunked": {"tokens": {"adapter_0": 1280}}},
                     alters={"chunked": "which sequences are in a step"})  # fmt: skip
    assert row_of(improved(packed, numerics=True), "chunked").why == "the step is 25.0% shorter"


def test_memory_counts_where_it_is_the_goal() -> None:
    machine = Machine(
        {"chunked": 1.4, "sgd": 0.5},
        {"chunked": Prediction(more_bytes=-300), "sgd": Prediction(0.5, more_bytes=-5)},
        more={"chunked": {"peak_bytes": 720.0}},
    )
    course = improved(machine, "memory")
    row = row_of(course, "chunked")
    assert (row.verdict, row.why, row.predicted_peak_bytes) == (KEPT, "the peak is 28.0% lower", 700)
    assert row.peak_error_frac == pytest.approx(700 / 720 - 1)
    assert row_of(course, "sgd").why == "no gain is predicted"


def test_it_ends_when_rounds_are_over_or_the_budget_is_spent() -> None:
    factors = {"batch": 0.5, "sgd": 0.8, "chunked": 0.9}
    course = improved(Machine(factors), most=2)
    assert course.stopped == row_of(course, "chunked").why == "--rounds 2 are over"
    course = improved(Machine(factors, budget=3))
    assert course.stopped == row_of(course, "sgd").why == "--budget is spent"
    assert improved(Machine(factors)).stopped == "nothing is left that promises a gain"


NAMES = sorted(SETTINGS)
FACTORS = st.dictionaries(st.sampled_from(NAMES), st.floats(0.3, 2.0), max_size=5)
PREDICTED = st.one_of(st.none(), st.floats(0.0, 1.5))


@given(FACTORS, st.dictionaries(st.sampled_from(NAMES), PREDICTED), st.integers(1, 6), st.integers(1, 12))
def test_no_change_is_kept_within_the_spread_and_the_end_is_the_product_of_what_was_kept(
    factors: dict[str, float], told: dict[str, float | None], most: int, budget: int
) -> None:
    predicted = {name: Prediction(frac) for name, frac in told.items()}
    machine = Machine(factors, predicted, budget=budget)
    course = improved(machine, most=most)
    kept = [row for row in course.rows if row.verdict == KEPT]
    product = 1.0
    for row in kept:
        assert row.base and row.measured and row.base.median_ns - row.measured.median_ns > WIDTH
        product *= factors[row.change]
    assert course.end.median_ns == pytest.approx(STEP * product) and course.step_frac == pytest.approx(product)
    assert {name: getattr(course.spec, name) for row in kept for name in row.settings} == {
        name: value for row in kept for name, value in row.settings.items()
    }
    assert course.measured_cnt <= most
    assert len(machine.ran) <= budget + 5  # the runs that a change is set against, and its own, end a round
    assert {row.change for row in course.rows} == set(factors)  # none is forgotten, none is there twice
    assert len(course.rows) == len(factors)


@given(FACTORS, st.integers(1, 6))
def test_what_is_dropped_leaves_no_trace(factors: dict[str, float], most: int) -> None:
    course = improved(Machine(factors), most=most)
    assert improved(Machine({row.change: factors[row.change] for row in course.rows if row.verdict == KEPT})).spec == (
        course.spec
    )
