"""What only a GPU can show. Runs with `pytest -m gpu` where torch sees one; skipped elsewhere."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from brute_force import check_categories
from conftest import absent, opened
from lorabench import nsys as tools
from lorabench import rundir
from training_scripts import PLAIN

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from lorabench.collect.batch_lora import dropout, operators  # noqa: E402
from lorabench.collect.batch_lora.plan import Plan, Slice  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
TINYLLAMA = ["--model", "tinyllama-1.1b", "--seq-len", "512", "--batch-size", "4", "--steps", "5"]


def collect(folder: Path, *words: object) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", "collect", "-o", folder, *map(str, words)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return rundir.read_summary(folder)


def test_a_recorded_run_has_its_kernels_in_its_steps(tmp_path: Path) -> None:
    words = ["--lora-cnt", 2, "--peft-mode", "batch", "--cuda-graph", "--steps", 3, "--profiler", "timing,torch,memory"]
    summary = collect(tmp_path / "run", *words)
    assert {"forward", "backward", "optimizer"} <= summary["memory"].keys()
    with opened(tmp_path / "run" / "trace.json.gz", db=tmp_path / "x.duckdb") as database:
        rows = dict(database.rows("select path, kernel_ns from range_summary where kind = 'annotation'"))
        ((whole,),) = database.rows("select sum(kernel_ns) from kernel_summary")
        steps = database.rows("select kernel_ns from step_summary")
    assert rows["run/step/graph"] > 0.5 * whole and len(steps) == 3 and all(ns > 0 for (ns,) in steps)


@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_a_run_on_the_gpu_has_kernels_in_its_modules(method: str, tmp_path: Path) -> None:
    summary = collect(tmp_path / "run", "--method", method, "--lora-cnt", 2, "--profiler", "timing,torch,nsys,memory")
    assert summary["device"]["type"] == "cuda" and summary["kernel_launches_per_step"] > 0
    assert summary["memory"]["steps"]["peak_allocated_bytes"] > 0
    assert (tmp_path / "run" / "snapshot.pickle").stat().st_size
    with opened(tmp_path / "run" / "trace.json.gz", db=tmp_path / "x.duckdb") as database:
        rows = dict(database.rows("select path, kernel_ns from range_summary where kind = 'annotation'"))
        ((whole,),) = database.rows("select sum(kernel_ns) from kernel_summary")
    assert rows["run"] > 0.9 * whole
    assert any(path.endswith("q_proj/lora_A/adapter_1") and time for path, time in rows.items())
    assert any("layers.1" in path and not path.startswith("run/step/forward") and time for path, time in rows.items())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(5, 7, 100), (3, 2, 4, 33), (5, 3000)], ids=str)
@pytest.mark.parametrize("rates", [[0.3], [0.0, 0.1, 0.5, 0.9, 0.25]], ids=["one rate", "a rate for each row"])
def test_the_dropout_kernel_gives_what_the_operators_give(
    dtype: str, shape: tuple[int, ...], rates: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = torch.device("cuda")
    of_rows = dropout.Rates.of(rates[: shape[0]], device)
    keys = dropout.row_keys([5, 6], [1, shape[0] - 1], device)
    x = torch.randn(shape, device=device).to(getattr(torch, dtype))
    assert dropout.has_kernel(x)
    (by_kernel,) = dropout.drop((x,), keys, 77, of_rows)
    monkeypatch.setattr(dropout, "has_kernel", lambda x: False)
    (by_operators,) = dropout.drop((x,), keys, 77, of_rows)
    assert torch.equal(by_kernel, by_operators)
    assert (by_kernel == 0).any() and (by_kernel != 0).any()


def test_nsys_sees_the_kernels_of_the_measured_steps_only(tmp_path: Path) -> None:
    if tools.find() is None:
        absent("nsys", "nsys is not installed")
    collect(tmp_path / "run", "--profiler", "nsys", "--steps", 2)
    assert rundir.read_manifest(tmp_path / "run")["passes"]["nsys"] == {"status": "ok", "message": None}
    wanted = {
        r["path"]: int(r["range_cnt"])
        for r in csv.DictReader((tmp_path / "run" / rundir.RANGES).read_text("utf-8").splitlines())
    }
    with opened(tmp_path / "run" / "run.sqlite", db=tmp_path / "x.duckdb") as database:
        seen = dict(database.rows("select path, range_cnt from range_summary where kind = 'annotation'"))
        ((kernels,),) = database.rows("select sum(kernel_cnt) from kernel_summary")
    assert seen == wanted and kernels > 0


@pytest.mark.parametrize("checkpointing", ["none", "layer"])
@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_memory_on_the_gpu_is_accounted_for(method: str, checkpointing: str, tmp_path: Path) -> None:
    options = ["--method", method, "--lora-cnt", 2, "--peft-mode", "batch", "--profiler", "memory"]
    collect(tmp_path / "run", *options, "--gradient-checkpointing", checkpointing)
    for name in ("snapshot.pickle", "memory.json.gz"):
        folder = tmp_path / name
        folder.mkdir()
        for file in (name, "ledger.csv"):
            shutil.copy(tmp_path / "run" / file, folder)
        with opened(folder / name, db=folder / "x.duckdb") as database:
            check_categories(database)
            before = dict(
                database.rows(
                    "select category, sum(bytes) from _memory_block "
                    "where start_ns is null and device <> 'cpu' group by 1"
                )
            )
            most = dict(
                database.rows(
                    "select category, max(live_bytes) from memory_by_category where device <> 'cpu' group by category"
                )
            )
    # blocks of the allocator are multiples of 512 bytes
    assert before["adapter_parameter"] <= most["gradient"] <= before["adapter_parameter"] + 512 * 200
    assert before["optimizer_state"] >= 2 * before["adapter_parameter"]
    assert most["activation"] > 0 and before["parameter"] > before["adapter_parameter"]
    assert (most.get("quantisation_workspace", 0) > 0) is (method == "qlora")


@pytest.mark.long
def test_launches_of_the_fused_operator_do_not_grow_with_the_adapters(tmp_path: Path) -> None:
    options = [*TINYLLAMA, "--peft-mode", "batch", "--profiler", "torch", "--optimizer", "sgd"]
    few = collect(tmp_path / "2", *options, "--lora-cnt", 2)
    many = collect(tmp_path / "8", *options, "--lora-cnt", 8)
    assert many["matrix_products_per_step"] == few["matrix_products_per_step"]
    optimizer = 6 * 40  # launches of six more optimizers, which are each adapter's own
    assert many["kernel_launches_per_step"] <= few["kernel_launches_per_step"] + optimizer


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_batch_is_not_slower_than_switch(count: int, tmp_path: Path) -> None:
    options = [*TINYLLAMA, "--profiler", "timing", "--lora-cnt", count, "--steps", 10]
    switch = collect(tmp_path / "switch", *options, "--peft-mode", "switch")
    batch = collect(tmp_path / "batch", *options, "--peft-mode", "batch")
    assert batch["step_wall_ns"]["p50"] < 1.05 * switch["step_wall_ns"]["p50"]


@pytest.mark.long
def test_ranges_cost_little_where_the_gpu_is_the_limit(tmp_path: Path) -> None:
    summary = collect(tmp_path / "run", *TINYLLAMA, "--batch-size", 16, "--profiler", "timing")
    assert summary["overhead_frac"]["ranges"] < 0.05


SMALL = {"model": "tiny", "seq_len": 128, "batch_size": 2, "lora_cnt": 3, "rank": 8, "learning_rate": 1e-3}


def losses(steps: int = 6, **settings: Any) -> tuple[list[float], list[str]]:
    """The losses of all adapters, step after step, and what the run says of itself."""
    from lorabench.collect.settings.spec import from_dict
    from lorabench.collect.workload.training import Trainer

    trainer = Trainer(from_dict(SMALL | settings), torch.device("cuda"), with_ranges=False)
    done = [trainer.run(task) for tasks in trainer.iterations(0, steps) for task in tasks]
    return [loss for d in done for loss in d.losses.tolist()], trainer.notes


@pytest.mark.parametrize("checkpointing", ["none", "layer"])
@pytest.mark.parametrize("storage", ["apart", "stacked"])
@pytest.mark.parametrize("autocast", ["none", "bfloat16"])
def test_a_recorded_step_trains_as_one_that_is_launched_call_by_call(
    autocast: str, storage: str, checkpointing: str
) -> None:
    settings = {"peft_mode": "batch", "autocast": autocast, "gradient_checkpointing": checkpointing}
    expected, _ = losses(**settings)
    found, notes = losses(**settings, adapter_storage=storage, cuda_graph=True)
    assert found == pytest.approx(expected, rel=1e-3) and not notes
    assert expected[-1] != expected[0]


@pytest.mark.parametrize("mode", ["switch", "batch"])
@pytest.mark.parametrize("quant", ["none", "nf4"])
def test_recorded_steps_of_any_length_train_the_same(quant: str, mode: str) -> None:
    settings = {"peft_mode": mode, "quant": quant, "lengths": "uniform", "seq_len": 300, "lora_cnt": 2}
    expected, _ = losses(12, **settings)
    found, notes = losses(12, **settings, cuda_graph=True)
    assert found == pytest.approx(expected, rel=5e-3) and not notes


@pytest.mark.parametrize("how", ["alone", "in a thread"])
def test_a_script_with_workers_has_its_kernels_in_its_phases(how: str, tmp_path: Path) -> None:
    text = PLAIN.replace("Net()", "Net().cuda()").replace("model(x)", "model(x.cuda())")
    text = text.replace("batch_size=4", "batch_size=4, num_workers=2")
    if how == "in a thread":
        head, loop = text.split("for n, (x,)")
        inside = "".join(f"    {line}\n" for line in f"for n, (x,){loop}".splitlines())
        text = (
            f"{head}import threading\ndef train():\n{inside}t = threading.Thread(target=train)\nt.start()\nt.join()\n"
        )
    (tmp_path / "train.py").write_text(text)
    collect(tmp_path / "run", "--profiler", "torch", "--", sys.executable, tmp_path / "train.py", 6)
    with opened(tmp_path / "run" / "trace.json.gz", db=tmp_path / "x.duckdb") as database:
        rows = dict(database.rows("select path, kernel_cnt from range_summary where kind = 'annotation'"))
        ((missing, all_of_them),) = database.rows("select count(*) filter (range_id is null), count(*) from gpu_op")
    assert all(rows[phase] > 0 for phase in ("forward/Net", "backward/Net", "optimizer"))
    assert 20 * missing <= all_of_them


@pytest.mark.parametrize("mode", ["switch", "seq", "batch"])
def test_a_replayed_step_reads_new_keys_of_dropout(mode: str) -> None:
    from lorabench.collect.settings.spec import from_dict
    from lorabench.collect.workload.training import Trainer

    settings = SMALL | {"peft_mode": mode, "dropout": 0.5, "cuda_graph": True}
    trainer = Trainer(from_dict(settings), torch.device("cuda"), with_ranges=False)
    seen = []
    for tasks in trainer.iterations(0, 4):
        for task in tasks:
            trainer.run(task)
            seen.append([place.tolist() for place, _ in trainer.clock._held.values()])
    assert trainer.clock._held and not trainer.clock._known  # all layers read the tensors that are filled anew
    assert len({str(keys) for keys in seen}) == len(seen) and not trainer.notes


def test_a_step_that_cannot_be_recorded_is_launched_call_by_call_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lorabench.collect.batch_lora import wrapping

    expected, _ = losses(peft_mode="batch")
    kept = wrapping.losses

    def waits(logits: Any, *more: Any) -> Any:
        float(logits.sum())  # which needs what the GPU has computed
        return kept(logits, *more)

    monkeypatch.setattr("lorabench.collect.workload.losses.losses", waits)
    found, notes = losses(peft_mode="batch", cuda_graph=True)
    assert found == pytest.approx(expected, rel=1e-3)
    assert len(notes) == 1 and notes[0].startswith("--cuda-graph: the step cannot be recorded")


@pytest.mark.parametrize(
    "options", [{}, {"rank": [8, 16, 8]}, {"lengths": "uniform"}, {"batch_size": [1, 3, 2]}], ids=str
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_stacked_adapters_train_as_those_apart(dtype: str, options: dict[str, Any]) -> None:
    settings = {"peft_mode": "batch", "dtype": dtype, **options}
    apart, _ = losses(**settings)
    stacked, _ = losses(**settings, adapter_storage="stacked")
    assert stacked == pytest.approx(apart, rel=1e-4 if dtype == "float32" else 2e-2)


def test_launches_of_stacked_adapters_do_not_grow_at_all(tmp_path: Path) -> None:
    options = [*TINYLLAMA, "--peft-mode", "batch", "--profiler", "torch", "--optimizer", "adamw-fused", "--steps", 2]
    options += ["--adapter-storage", "stacked", "--autocast", "bfloat16", "--rank", 4]
    few = collect(tmp_path / "2", *options, "--lora-cnt", 2)
    many = collect(tmp_path / "8", *options, "--lora-cnt", 8)
    assert many["kernel_launches_per_step"] == few["kernel_launches_per_step"]


@pytest.mark.parametrize("ranks", [(8, 8, 8), (8, 16, 8)], ids=["equal", "unequal"])
def test_the_grouped_product_of_the_device_gives_the_same_numbers(ranks: tuple[int, ...]) -> None:
    slices = tuple(Slice(f"a{n}", 2 * n, 2 * n + 2, rank, 0.5 + n, 0.1 * n) for n, rank in enumerate(ranks))
    found = []
    for dtype, operator in ((torch.float32, operators.looped), (torch.bfloat16, operators.fused)):
        random = torch.Generator("cuda").manual_seed(0)
        x = torch.randn(6, 32, 64, generator=random, device="cuda").to(dtype).requires_grad_()
        shapes = [shape for s in slices for shape in ((s.rank, 64), (128, s.rank))]
        weights = [torch.randn(s, generator=random, device="cuda").to(dtype).requires_grad_() for s in shapes]
        keys = torch.arange(6, dtype=torch.int32, device="cuda") * 7919
        plan = Plan(slices, 6, 128, keys, 3, {})
        delta = operator(x, plan, weights)
        delta.float().pow(2).sum().backward()
        found.append([t.float() for t in (delta, x.grad, *(w.grad for w in weights))])
    for mine, reference in zip(found[1], found[0], strict=True):
        assert (mine - reference).norm() / reference.norm() < 2e-2


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin", [True, False])
def test_batches_reach_the_gpu_from_pinned_memory_unless_it_is_left_out(pin: bool, workers: int) -> None:
    from lorabench.collect.settings.spec import from_dict
    from lorabench.collect.workload.training import Trainer

    settings = {"model": "tiny", "seq_len": 8, "loader_workers": workers, "pin_memory": pin, "batch_delay_ms": 1}
    trainer = Trainer(from_dict(settings), torch.device("cuda"), with_ranges=False)
    trainer.load_ahead()
    loaded = trainer._load(trainer.adapters)
    assert loaded.batch.input_ids.is_pinned() is pin
    trainer.close()


@pytest.mark.parametrize("model", ["tinyllama-1.1b", "llama-2-7b"])
def test_what_improve_predicts_on_the_gpu_is_measured(model: str, tmp_path: Path) -> None:
    words = ["--model", model, "--seq-len", "512", "--batch-size", "1", "--steps", "8"]
    collect(tmp_path / "run", *words, "--lora-cnt", 4, "--profiler", "timing,torch")
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", "improve", tmp_path / "run", "--rounds", "3", "-o", tmp_path / "better"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "better" / "improve.csv").read_text("utf-8").splitlines()))
    errors = {row["change"]: float(row["error_frac"]) for row in rows if row["error_frac"]}
    assert "batch" in errors and all(abs(error) <= 0.1 for error in errors.values()), errors
