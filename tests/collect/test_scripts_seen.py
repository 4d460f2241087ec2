"""`lorabench collect -- COMMAND`: what it sees of models that scripts compile, train in turns, or adapt themselves."""

import copy
import csv
import json
import os
import subprocess
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from conftest import opened
from lorabench import rundir
from lorabench.collect.scripts.hook import turns

torch: Any = pytest.importorskip("torch")

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
Write = Callable[[str], Path]


def alone(*words: object) -> str:
    return subprocess.run([*map(str, words)], env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout


def collect(folder: Path, *words: object) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", "collect", "-o", folder / "run", "--no-report", *map(str, words)],
        env=ENVIRONMENT, capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def ranges(folder: Path) -> dict[str, int]:
    statement = "select path, range_cnt from range_summary where kind = 'annotation' and path not like '%ptimizer.%'"
    with opened(folder / "run", db=folder / "x.duckdb") as found:
        return {path: count for path, count in found.rows(statement) if "compile_id" not in path}


# Prints what dynamo did, and whether what it saves knows of lorabench.
COMPILED = """
import io, sys, torch
from torch._dynamo import utils
torch.manual_seed(0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)
    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

when, called, kind = sys.argv[1:]
model = Net() if kind == "Net" else torch.nn.Sequential(torch.nn.Linear(8, 4))
if when == "before":
    compiled = torch.compile(model, backend="eager", fullgraph=True)
optimizer = torch.optim.AdamW(model.parameters())
if when == "behind":
    compiled = torch.compile(model, backend="eager", fullgraph=True)
if when == "in place":
    model.compile(backend="eager", fullgraph=True)
    compiled = model
run = model if called == "model" else compiled
for n in range(4):
    if n == 2:
        with torch.no_grad():
            run(torch.ones(2, 8))
    loss = run(torch.randn(2, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
if called == "both":
    model(torch.ones(2, 8))
data = io.BytesIO()
torch.save(model, data)
print("lorabench" in str(data.getvalue()), len(utils.get_compilation_metrics()), dict(utils.counters["stats"]))
print(dict(utils.counters["graph_break"]))
"""


@pytest.mark.parametrize("kind", ["Net", pytest.param("Sequential", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("when", "called", "forwards"),
    [("before", "model", 4), ("before", "compiled", 4), ("behind", "compiled", 4), ("behind", "both", 5),
     ("in place", "compiled", 4)],
)  # fmt: skip
@pytest.mark.first(3)
@pytest.mark.slow
def test_phases_of_a_compiled_model_show_whatever_is_called_and_dynamo_sees_no_hook(
    when: str, called: str, forwards: int, kind: str, script: Write, tmp_path: Path
) -> None:
    words = [sys.executable, script(COMPILED), when, called, kind]
    said = alone(*words)
    done = collect(tmp_path, "--profiler", "torch", "--", *words)
    assert (
        done.stdout.removesuffix(f"wrote {tmp_path / 'run'}\n") == said
    )  # losses, what is saved, how often and what dynamo compiled
    seen = ranges(tmp_path)
    phases = {"forward": forwards, "forward without gradient": 1, "backward": 4, "optimizer": 4}
    assert {path: count for path, count in seen.items() if "/" not in path} == phases
    has_modules = any(path.startswith("forward/") for path in seen)
    assert has_modules == (called == "model")


# Two models with an optimizer each, of which the words say the order; "shared": they train the same parameter, too.
TURNS = """
import sys, torch
kind, order = sys.argv[1:]
torch.manual_seed(0)
if kind == "adapters":
    from peft import LoraConfig, get_peft_model
    config = LoraConfig(r=2, target_modules=["0"])
    model = get_peft_model(torch.nn.Sequential(torch.nn.Linear(8, 8)), config, adapter_name="a")
    model.add_adapter("b", config)
    models = {"a": model, "b": model}
    weights = {name: [w for n, w in model.named_parameters() if f".{name}." in n] for name in "ab"}
    for weight in model.parameters():
        weight.requires_grad_(True)
else:
    models = {name: torch.nn.Linear(8, 8) for name in "ab"}
    weights = {name: list(model.parameters()) for name, model in models.items()}
if kind == "shared":
    weights["a"] += weights["b"]
optimizers = {name: torch.optim.SGD(own, 0.1) for name, own in weights.items()}
for name in order:
    if kind == "adapters":
        model.set_adapter(name)
    loss = models[name](torch.ones(2, 8)).square().mean()
    loss.backward()
    optimizers[name].step()
    optimizers[name].zero_grad()
"""


@pytest.mark.parametrize(
    ("kind", "order", "passes", "said", "timed", "named"),
    [
        ("two", "ab" * 5, "timing,torch", "2 optimizers take turns: a step is both", 5, [1, 2, 3, 4, 5]),
        ("two", "ab" * 5, "torch", "2 optimizers take turns: a step is both", 5, [3, 4, 5]),
        ("two", "aab" * 4, "timing,torch", "2 optimizers take turns: a step is 3 of theirs", 4, [1, 2, 3, 4]),
        ("two", "abbabaab", "timing,torch", "", 8, []),
        ("shared", "ab" * 4, "timing,torch", "", 8, []),
        ("adapters", "ab" * 4, "timing,torch", "", 8, []),
    ],
)
@pytest.mark.first(2)
@pytest.mark.slow
def test_a_step_of_optimizers_that_take_turns_is_a_whole_turn(
    kind: str, order: str, passes: str, said: str, timed: int, named: list[int], script: Write, tmp_path: Path
) -> None:
    if kind == "adapters":
        pytest.importorskip("peft")
    first = passes.split(",", maxsplit=1)[0]
    done = collect(tmp_path, "--profiler", passes, "--", sys.executable, script(TURNS), kind, order)
    assert (f"pass {first}: {said}\n" in done.stderr) if said else "take turns" not in done.stderr
    steps = csv.DictReader((tmp_path / "run" / rundir.STEPS).read_text("utf-8").splitlines())
    assert [int(row["step"]) for row in steps if row["pass"] == first] == list(range(2, timed + 1))
    with opened(tmp_path / "run", db=tmp_path / "x.duckdb") as database:
        rows = database.rows("select step from step_summary where found_by = 'annotation' order by 1")
        count = "select sum(range_cnt)::int from range_summary where path in ('optimizer', 'step/optimizer')"
        (optimizer_cnt,) = database.rows(count)[0]
    assert [step for (step,) in rows] == named
    assert optimizer_cnt == len(order)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([], 1), ([1, 1, 1, 1], 1), ([1, 2, 1], 1), ([1, 2, 1, 2], 2), ([1, 2, 1, 2, 1], 2), ([1, 1, 2, 1, 1, 2], 3),
        ([1, 2, 3, 1, 2, 3], 3), ([1, 2, 1, 2, 2], 1), ([1, 0, 1, 2], 2), ([1, 0, 1, 1], 1), ([1, 3, 0, 3, 2, 3], 1),
        ([1] * 12 + [2] + [1] * 12 + [2], 1),
    ],
)  # fmt: skip
def test_turns_are_the_shortest_period_of_several_optimizers(keys: list[int], expected: int) -> None:
    assert turns.length(keys) == expected


IN_EVAL = """
import sys, torch
model = torch.nn.Linear(8, 8)
if sys.argv[1] == "eval":
    model.eval()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for n in range(3):
    model(torch.ones(2, 8)).square().mean().backward()
    optimizer.step()
    if sys.argv[1] == "train":  # evaluates with gradients
        model.eval()
        model(torch.ones(2, 8))
        model.train()
"""


@pytest.mark.parametrize(("mode", "forwards"), [("eval", 2), ("train", 3)])
@pytest.mark.slow
def test_a_model_that_learns_in_eval_mode_has_forwards_behind_its_first(
    mode: str, forwards: int, script: Write, tmp_path: Path
) -> None:
    collect(tmp_path, "--profiler", "torch", "--", sys.executable, script(IN_EVAL), mode)
    assert ranges(tmp_path)["forward"] == forwards


# Optimizers of one parameter each, stepped in the backward; `copied`: of copies, which nobody sees made; `loose`: of
# parameters in no module. Prints how often all objects were looked at.
MANY = """
import copy, gc, sys, torch
kind, count = sys.argv[1], int(sys.argv[2])
looks, look = [], gc.get_objects
gc.get_objects = lambda *generation: looks.append(1) or look(*generation)
if kind == "adapters":
    from peft import LoraConfig, get_peft_model
layer = torch.nn.Linear(8, 8, bias=False)
for round in range(count if kind != "layers" else 1):
    if kind == "loose":
        weights = [torch.nn.Parameter(torch.ones(8, 8))]
        model = lambda x: x @ weights[0]
    else:
        layers = [layer if kind == "copied" else torch.nn.Linear(8, 8) for _ in range(count)]
        model = torch.nn.Sequential(*layers)
        model = copy.deepcopy(layer) if kind == "copied" else model
        if kind == "adapters":
            model = get_peft_model(model, LoraConfig(r=2, target_modules=["0"]))
        weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizers = {weight: torch.optim.SGD([weight], 0.01) for weight in weights}
    def step(weight):
        optimizers[weight].step()
        optimizers[weight].zero_grad()
    for weight in weights:
        weight.register_post_accumulate_grad_hook(step)
    for n in range(2):
        model(torch.ones(2, 8)).square().mean().backward()
print(len(looks), "looks")
"""


@pytest.mark.parametrize(
    ("kind", "count", "looks"), [("layers", 40, 0), ("adapters", 4, 0), ("copied", 4, 4), ("loose", 30, 4)]
)
@pytest.mark.first(1)
@pytest.mark.slow
def test_the_models_of_many_optimizers_are_found_without_a_look_at_all_objects_for_each(
    kind: str, count: int, looks: int, script: Write, tmp_path: Path
) -> None:
    if kind == "adapters":
        pytest.importorskip("peft")
    done = collect(tmp_path, "--profiler", "timing", "--", sys.executable, script(MANY), kind, count)
    assert f"{looks} looks\n" in done.stdout
    if kind != "loose":
        (process,) = json.loads((tmp_path / "run" / rundir.SUMMARY).read_text("utf-8"))["processes"]
        assert process["step_cnt"] == 2 * (1 if kind == "layers" else count)


@pytest.mark.slow
def test_what_memory_is_for_is_written_down_once_of_a_model_with_many_optimizers(script: Write, tmp_path: Path) -> None:
    collect(tmp_path, "--profiler", "memory", "--", sys.executable, script(MANY), "layers", 4)
    rows = csv.DictReader((tmp_path / "run" / rundir.LEDGER.format("")).read_text("utf-8").splitlines())
    assert Counter(row["category"] for row in rows) == {"parameter": 8}


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    from lorabench.collect.scripts.hook.models import Models
    from torch.nn.modules import module

    for kind in ("module", "parameter"):
        monkeypatch.setattr(module, f"_global_{kind}_registration_hooks", OrderedDict())
    return Models(lambda what: nullcontext())


def test_a_model_that_got_a_module_around_it_is_found_as_that(models: Any) -> None:
    inner = torch.nn.Sequential(torch.nn.Linear(2, 2))
    assert models.of(torch.optim.SGD(inner.parameters())) == [inner]
    outer = torch.nn.Sequential(inner)
    assert models.of(torch.optim.SGD(inner.parameters())) == [outer]


def test_a_layer_that_is_put_into_a_copied_model_is_found_in_that(models: Any) -> None:
    model = copy.deepcopy(torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2))))
    model[0][0] = torch.nn.Linear(2, 2)
    assert models.of(torch.optim.SGD(model[0][0].parameters())) == [model]


def test_copies_that_a_model_is_made_of_need_no_look_at_all_objects(
    models: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("gc.get_objects")
    layer = torch.nn.TransformerEncoderLayer(4, 2, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)  # of copies of the layer
    assert models.of(torch.optim.SGD(model.parameters())) == [model]


def test_an_optimizer_has_no_number_of_one_that_is_gone_but_for_the_same_weights(models: Any) -> None:
    from lorabench.collect.scripts.hook.models import Keys

    keys, weight, found = Keys(models), torch.nn.Parameter(torch.ones(2)), []
    for _ in range(4):
        found += [keys.of(torch.optim.SGD(torch.nn.Linear(2, 2).parameters())), keys.of(torch.optim.SGD([weight]))]
    assert found == [1, 2, 3, 2, 4, 2, 5, 2]


EVALUATES = """
import sys, torch
data = torch.utils.data.DataLoader(torch.randn(24, 8), batch_size=4)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def evaluate():
    for x in data:
        model(x)
for epoch in range(4):
    for x in data:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    model.train(sys.argv[1] == "without gradient")
    with torch.set_grad_enabled(sys.argv[1] == "in eval mode"):
        evaluate()
    model.train()
"""


@pytest.mark.parametrize("how", ["without gradient", "in eval mode"])
@pytest.mark.first(1)
@pytest.mark.slow
def test_a_script_that_evaluates_is_seen_to(how: str, script: Write, tmp_path: Path) -> None:
    collect(tmp_path, "--profiler", "timing", "--", sys.executable, script(EVALUATES), how)
    found = json.loads((tmp_path / "run" / rundir.SUMMARY).read_text("utf-8"))
    assert found["step_cnt"] == 23 and found["loader"]["batch_cnt"] == 1
    assert [(group["batch_cnt"], group["step_cnt"]) for group in found["by_batches"]] == [(1, 20), (7, 3)]


# What is printed: tokens of each step (of a turn: of three) are 6, or 12 where two micro steps or batches have them.
TOKENS = """
import sys, torch
kind, ids = sys.argv[1], torch.ones(2, 3, dtype=torch.long)
models = [torch.nn.Sequential(torch.nn.Embedding(4, 4), torch.nn.Linear(4, 1)) for _ in range(2)]

class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = models[0]
    def forward(self, features):
        return sum(self.inner(one["input_ids"]).square().mean() for one in features)

optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in models]
loss = Loss()
if kind == "list":
    optimizers[0] = torch.optim.SGD(loss.parameters(), 0.1)
def learn(which, ids):
    models[which](ids).square().mean().backward()
for n in range(4):
    if kind == "list":
        mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
        loss([dict(input_ids=ids.clone(), attention_mask=mask) for _ in range(2)]).backward()
    else:
        learn(0, ids)
    if kind == "micro":
        learn(0, ids)
    optimizers[0].step()
    if kind == "filled":
        ids.fill_(2)
    if kind in ("turns", "filled"):
        for _ in range(2):
            learn(1, ids)
            optimizers[1].step()
"""


@pytest.mark.parametrize(("kind", "count"), [("turns", 6), ("filled", 12), ("micro", 12), ("list", 12)])
@pytest.mark.first(2)
@pytest.mark.slow
def test_the_tokens_of_a_step_are_those_of_its_batches(kind: str, count: int, script: Write, tmp_path: Path) -> None:
    collect(tmp_path, "--profiler", "timing", "--", sys.executable, script(TOKENS), kind)
    steps = csv.DictReader((tmp_path / "run" / rundir.STEPS).read_text("utf-8").splitlines())
    assert [int(row["computed_token_cnt"]) for row in steps] == [count] * 3
    padding = rundir.read_summary(tmp_path / "run").get("padding")
    assert padding == ({"token_cnt": 12, "real_token_cnt": 6, "longest_token_cnt": 8} if kind == "list" else None)


@pytest.mark.parametrize(("mode", "says"), [("train", True), ("eval", False)])
@pytest.mark.slow
def test_an_evaluation_with_gradients_is_told_to_do_without(
    mode: str, says: bool, script: Write, tmp_path: Path
) -> None:
    done = collect(tmp_path, "--profiler", "timing", "--", sys.executable, script(IN_EVAL), mode)
    assert ("3 forwards in eval mode kept what a backward needs, and none was seen" in done.stderr) == says
    assert ("torch.no_grad()" in done.stderr) == says
