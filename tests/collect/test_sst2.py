"""--task sst2: sentences from wherever they lie, epochs against a loop of plain PyTorch, what a run leaves."""

import csv
import json
import os
import subprocess
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from lorabench import rundir  # noqa: E402
from lorabench.collect.run import epochs, measure, preflight, trackers  # noqa: E402
from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload import sst2, words  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import InputError, ToolError, UsageError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
CPU = torch.device("cpu")


def spec(**settings: Any) -> Any:
    return from_dict({"task": "sst2", "device": "cpu", "profiler": "timing", "learning_rate": 1e-3, **settings})


def train(trainer: Trainer) -> tuple[list[float], list[dict[str, Any]]]:
    steps, entries = epochs.train(trainer, measure.Memory(CPU), lambda task: (0, 1, trainer.run(task)))
    return [done.losses.item() for _, _, done in steps], entries


def by_hand(model: Any, parameters: list[Any], settings: Any) -> tuple[list[float], list[tuple[float, ...]]]:
    """What anybody would write: batches in a shuffled order, AdamW, the model's own loss; then the validation."""
    rows = settings.batch_size[0]
    encoded = [[(words.encode(s, 256), c) for s, c in split] for split in words.sentences(settings.seed)]

    def batch(chosen: list[Any]) -> dict[str, Any]:
        longest = max(len(ids) for ids, _ in chosen)
        return {
            "input_ids": torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in chosen]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in chosen]),
            "labels": torch.tensor([c for _, c in chosen]),
        }

    name = "model" if settings.method == "full" else "adapter_0"
    random = torch.Generator().manual_seed(settings.seed * 1_000_003 + zlib.crc32(name.encode()))
    optimizer = torch.optim.AdamW(parameters, lr=settings.learning_rate[0])
    losses, ends = [], []
    for _ in range(settings.epochs):
        model.train()
        hits, first = 0, len(losses)
        order = torch.randperm(len(encoded[0]), generator=random).tolist()
        for start in range(0, len(order) - rows + 1, rows):
            given = batch([encoded[0][n] for n in order[start : start + rows]])
            out = model(**given)
            out.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(out.loss.item())
            hits += int((out.logits.argmax(-1) == given["labels"]).sum())
        model.eval()
        with torch.no_grad():
            outs = [(model(**(b := batch(encoded[1][n : n + rows]))), b) for n in range(0, len(encoded[1]), rows)]
        right = sum(int((out.logits.argmax(-1) == b["labels"]).sum()) for out, b in outs)
        seen = losses[first:]
        ends.append((sum(seen) / len(seen), hits / (len(seen) * rows), right / len(encoded[1])))
    return losses, ends


@pytest.mark.parametrize("method", ["full", "lora"])
@pytest.mark.slow
def test_epochs_are_those_of_a_plain_loop_to_the_bit(method: str) -> None:
    import copy

    settings = spec(method=method, epochs=2, batch_size=16, **({} if method == "full" else {"dropout": 0}))
    trainer = Trainer(settings, CPU, with_ranges=False)
    model = copy.deepcopy(trainer.model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    drawn = torch.get_rng_state()  # DistilBERT's own dropout
    losses, entries = train(trainer)
    torch.set_rng_state(drawn)
    expected, ends = by_hand(model, parameters, settings)
    assert losses == expected
    assert [(e["train_loss"], e["train_acc"], e["val_acc"]) for e in entries] == ends


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
@pytest.mark.slow
def test_the_shipped_words_are_learned(method: str) -> None:
    _, entries = train(Trainer(spec(method=method, epochs=4), CPU, with_ranges=False))
    assert entries[-1]["val_acc"] > 0.85 and entries[-1]["val_acc"] >= entries[0]["val_acc"]
    assert entries[-1]["train_acc"] > entries[0]["train_acc"]
    assert entries[-1]["train_loss"] < entries[0]["train_loss"]


def test_a_quantised_classifier_keeps_its_head_and_trains_it() -> None:
    import bitsandbytes

    trainer = Trainer(spec(method="qlora"), CPU)
    kinds = {name: type(module) for name, module in trainer.model.named_modules()}
    assert any(kind is bitsandbytes.nn.Linear4bit for kind in kinds.values())
    heads = {name: kind for name, kind in kinds.items() if name.endswith("classifier.modules_to_save.adapter_0")}
    assert heads and set(heads.values()) == {torch.nn.Linear}
    names = {id(p): name for name, p in trainer.model.named_parameters()}
    trained = {names[id(p)] for p in trainer.parameters(trainer.adapters[0])}
    assert any("pre_classifier.modules_to_save.adapter_0.weight" in name for name in trained)


def saved(folder: Path, with_tokenizer: bool) -> Path:
    """A DistilBERT as the hub has it: made to fill in words, with a tokenizer or without."""
    from transformers import AutoConfig, AutoModelForMaskedLM, DistilBertTokenizerFast

    shape = {"dim": 64, "n_layers": 1, "n_heads": 4, "hidden_dim": 128, "vocab_size": 200}
    AutoModelForMaskedLM.from_config(AutoConfig.for_model("distilbert", **shape)).save_pretrained(folder)
    if with_tokenizer:
        listed = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words._WORDS]
        (folder / "vocab.txt").write_text("\n".join(listed) + "\n", "utf-8")
        DistilBertTokenizerFast.from_pretrained(str(folder)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
@pytest.mark.parametrize("with_tokenizer", [True, False])
def test_a_checkpoint_is_loaded_as_a_classifier_with_its_tokenizer(
    method: str, with_tokenizer: bool, tmp_path: Path
) -> None:
    folder = saved(tmp_path, with_tokenizer)
    trainer = Trainer(spec(method=method, model=str(folder), seq_len=6), CPU, with_ranges=False)
    assert type(trainer.base).__name__ == "DistilBertForSequenceClassification"
    assert type(dict(trainer.base.named_modules())["distilbert.transformer.layer.0.ffn.lin1"]).__name__ == (
        "Linear4bit" if method == "qlora" else "Linear"
    )
    assert trainer.splits is not None
    assert bool(trainer.notes) != with_tokenizer
    (text, _), (ids, _) = words.sentences(0)[0][0], trainer.splits.train[0]
    if with_tokenizer:
        known = [5 + words._WORDS.index(word) for word in words._PIECES.findall(text)]
        assert ids == [2, *known[:4], 3]
    else:
        assert ids == [*words.encode(text, 200)[:5], 2]
    (task,) = next(trainer.iterations(0, 1))
    before = trainer.run(task).losses.item()
    assert 0.5 < before < 1 and 0 <= trainer.evaluate().accuracy <= 1
    assert trainer.run(task).losses.isfinite().all()


def test_a_decoder_is_a_classifier_in_this_task() -> None:
    trainer = Trainer(spec(model="tiny", epochs=1, learning_rate=5e-3), CPU, with_ranges=False)
    assert type(trainer.base).__name__ == "LlamaForSequenceClassification"
    losses, _ = train(trainer)
    assert sum(losses[-8:]) < sum(losses[:8])


def test_tokens_of_an_encoder_look_at_all_others() -> None:
    encoder, decoder = (Trainer(spec(model=model), CPU).model for model in ("tiny-distilbert", "tiny"))
    assert measure.arithmetic(encoder, "none", {}).looked_at_frac == 1
    assert measure.arithmetic(decoder, "none", {}).looked_at_frac == 0.5


def test_the_words_follow_from_the_seed_and_no_sentence_is_in_both_splits() -> None:
    train_set, validation = words.sentences(3)
    assert (train_set, validation) == words.sentences(3) != words.sentences(4)
    assert not {s for s, _ in train_set} & {s for s, _ in validation}
    assert len(train_set) == words.TRAIN_CNT and sum(c for _, c in validation) == words.VALIDATION_CNT / 2
    ids = words.encode("This film is truly Unheardof!", 30522)
    assert len(ids) == 8 and len(set(ids)) == 8 and max(ids) < 30522
    assert words.encode("x", 30522) == words.encode("x", 30522)


RECORDS = [{"sentence": f"a {word} film", "label": n % 2, "idx": n} for n, word in enumerate("abcdefghijklmnopqrst")]


def save(folder: Path, kind: str, split: str, records: list[dict[str, Any]]) -> None:
    """As each program writes it: datasets' save_to_disk, GLUE's download, JSON lines."""
    import pyarrow as pa

    if kind == "arrow":
        (folder / split).mkdir(parents=True)
        table = pa.Table.from_pylist(records)
        path = folder / split / "data-00000-of-00001.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    elif kind == "tsv":
        name = {"validation": "dev"}.get(split, split)
        lines = ["sentence\tlabel", *(f"{r['sentence']}\t{r['label']}" for r in records)]
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
    else:
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")


@pytest.mark.parametrize("kind", ["arrow", "tsv", "jsonl"])
def test_sentences_are_read_as_they_are_shipped(kind: str, tmp_path: Path) -> None:
    save(tmp_path, kind, "train", RECORDS)
    save(tmp_path, kind, "validation", RECORDS[:4])
    splits = sst2.load(spec(data=str(tmp_path)), None, 256, 2)
    assert [label for _, label in splits.train] == [r["label"] for r in RECORDS] and len(splits.validation) == 4
    assert splits.train[2][0] == words.encode("a c film", 256)
    assert "split of its own" in splits.held_out


def test_a_file_alone_is_split_by_every_tenth_sentence(tmp_path: Path) -> None:
    save(tmp_path, "jsonl", "mine", RECORDS)
    splits = sst2.load(spec(data=str(tmp_path / "mine.jsonl")), None, 256, 2)
    assert (len(splits.train), len(splits.validation)) == (18, 2) and "every 10th" in splits.held_out
    assert not {tuple(ids) for ids, _ in splits.train} & {tuple(ids) for ids, _ in splits.validation}


def test_quotes_of_a_tsv_are_only_quotes(tmp_path: Path) -> None:
    text = 'sentence\tlabel\n"so bad it is good\t1\nthe end"\t0\n'
    (tmp_path / "train.tsv").write_text(text, "utf-8")
    (tmp_path / "dev.tsv").write_text(text, "utf-8")
    assert len(sst2.load(spec(data=str(tmp_path)), None, 256, 2).train) == 2


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"sentence": "x", "label": -1}, "record 2 has the label -1: GLUE's test split has none"),
        ({"sentence": "x", "label": 2}, "record 2: label must be a class below 2, not 2"),
        ({"sentence": "x"}, "label must be a class below 2, not None"),
        ({"label": 1}, "record 2 has no sentence"),
        ([], "record 2 has no sentence"),
    ],
)
def test_what_is_no_sentence_is_named(record: Any, says: str, tmp_path: Path) -> None:
    save(tmp_path, "jsonl", "train", [RECORDS[0], record])
    with pytest.raises(InputError, match=says):
        sst2.load(spec(data=str(tmp_path)), None, 256, 2)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [("x.csv", "a,b", "neither .tsv nor .jsonl"), ("x.jsonl", "{", "cannot read"), ("x.tsv", "", "too few sentences")],
)
def test_files_of_another_kind_are_refused(name: str, content: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(InputError, match=says):
        sst2.load(spec(data=str(tmp_path / name)), None, 256, 2)
    with pytest.raises(InputError, match="not a folder of sentences"):
        sst2.load(spec(data=str(tmp_path)), None, 256, 2)


def test_glue_is_loaded_by_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(*name: str) -> dict[str, Any]:
        asked.append(name)
        return {"train": RECORDS, "validation": RECORDS[:2], "test": [{"sentence": "x", "label": -1}]}

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    splits = sst2.load(spec(data="glue"), None, 256, 2)
    assert asked == [("glue", "sst2")] and (len(splits.train), len(splits.validation)) == (20, 2)


def test_without_network_or_library_a_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(*name: str) -> None:
        raise ConnectionError("Couldn't reach the Hub\nmore")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(InputError, match=r"Couldn't reach the Hub.*save_to_disk.*or use --data words"):
        sst2.load(spec(data="glue"), None, 256, 2)
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match="pip install datasets"):
        preflight._check_data(spec(data="glue"))


def test_an_epoch_takes_each_sentence_once_but_for_an_unfinished_step() -> None:
    examples = [([n + 3], n % 2) for n in range(23)]
    stream = sst2.Epochs(sst2.Splits(examples, examples, ""), spec(), "a", 3, 2, 0)
    assert stream.steps_per_epoch == 3
    seen = [[int(i) for _ in range(6) for i in stream.next().input_ids[:, 0]] for _ in range(2)]
    assert all(len(set(epoch)) == 18 for epoch in seen) and seen[0] != seen[1]
    with pytest.raises(InputError, match="has 23 sentences to train on, and a step takes 24"):
        sst2.Epochs(sst2.Splits(examples, examples, ""), spec(), "a", 12, 2, 0)


def test_the_learning_rate_falls_over_all_epochs() -> None:
    trainer = Trainer(spec(epochs=2, lr_schedule="linear", batch_size=64), CPU)
    (optimizer,) = trainer.optimizers.values()
    seen: list[float] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(optimizer.param_groups[0]["lr"]))
    train(trainer)
    assert seen == pytest.approx([1e-3 * (16 - n) / 16 for n in range(16)])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lora_cnt": 2}, "one classifier at a time"),
        ({"peft_mode": "process"}, "one classifier at a time"),
        ({"data": "synthetic"}, "has no sentences for --task sst2"),
        ({"epochs": 0}, "--epochs must be at least 1"),
        ({"trainer": "sft"}, "--trainer sft counts steps"),
        ({"steps": 9}, "--steps is for passes with a profiler"),
        ({"profiler": "torch"}, "add it to --profiler"),
        ({"run_id": "../x"}, "names a folder"),
        ({"lengths": "uniform"}, "is for synthetic data"),
        ({"wandb_mode": "offline"}, "--wandb-mode applies to --wandb"),
        ({"task": "auto", "epochs": 2}, "--epochs applies to --task sst2"),
        ({"task": "auto", "wandb": True}, "--wandb applies to --task sst2"),
        ({"loss": "chunked"}, "a classifier has few: use full"),
        ({"batch": "x.pt"}, "leave one of them out"),
    ],
)
def test_settings_that_do_not_fit_the_task_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        spec(**settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs") / "first"
    asked = ("--task", "sst2", "--epochs", "2", "--profiler", "timing,torch", "--batch-size", "32", "--device", "cpu")
    done = subprocess.run(
        [sys.executable, "-m", "lorabench", "collect", "-o", folder, "--no-report", "--run-id", "mine", *asked],
        env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done.stderr


@pytest.mark.slow
def test_a_run_leaves_its_reports_beside_it(run: tuple[Path, str]) -> None:
    folder, said = run
    reports = folder.parent / "reports" / "mine"
    assert {p.name for p in reports.iterdir()} == {
        "config.json", "epoch_results.csv", "summary.json", "profiler_traces"
    }  # fmt: skip
    assert "--data words: sentences of words that ship with lorabench" in said and "epoch 2: " in said
    rows = list(csv.DictReader((reports / "epoch_results.csv").read_text("utf-8").splitlines()))
    assert list(rows[0]) == ["epoch", "epoch_time_s", "throughput_tok_s", "peak_vram_gb", "train_loss", "train_acc",
                             "val_loss", "val_acc"]  # fmt: skip
    assert [row["epoch"] for row in rows] == ["1", "2"] and all(row["peak_vram_gb"] == "" for row in rows)
    assert all(float(row["epoch_time_s"]) > 0 and 0 <= float(row["val_acc"]) <= 1 for row in rows)
    summary = json.loads((reports / "summary.json").read_text("utf-8"))
    assert summary["last_epoch"]["val_loss"] == float(rows[1]["val_loss"])
    assert 0 < summary["step_latency_ms"]["p50"] <= summary["step_latency_ms"]["p95"]
    config = json.loads((reports / "config.json").read_text("utf-8"))
    assert config["spec"]["task"] == "sst2" and config["sentences"]["steps_per_epoch"] == 16
    assert (reports / config["run"]).resolve() == folder.resolve()


@pytest.mark.slow
def test_the_top_operators_are_those_of_the_trace(run: tuple[Path, str]) -> None:
    folder, _ = run
    summary = json.loads((folder.parent / "reports" / "mine" / "summary.json").read_text("utf-8"))
    averages = csv.DictReader((folder / "key_averages.csv").read_text("utf-8").splitlines())
    operators = {r["name"]: float(r["self_cpu_us"]) for r in averages if r["name"].startswith("aten::")}
    top = summary["top_operators"]
    assert top[0]["name"] == max(operators, key=lambda name: operators[name])
    assert top[0]["self_cpu_us"] == max(operators.values()) > 0 and len(top) == 20


@pytest.mark.slow
def test_the_traces_are_where_tensorboard_looks_and_analyze_reads_them(run: tuple[Path, str], database_of: Any) -> None:
    folder, _ = run
    trace = folder.parent / "reports" / "mine" / "profiler_traces" / "mine.pt.trace.json.gz"
    assert trace.read_bytes() == (folder / "trace.json.gz").read_bytes()
    assert database_of(trace).rows("select count(*) from step_summary") == [(5,)]


@pytest.mark.slow
def test_the_steps_of_all_epochs_are_measured_and_passes_agree(run: tuple[Path, str]) -> None:
    folder, _ = run
    summary = rundir.read_summary(folder)
    assert summary["is_same_in_all_passes"] is True
    rows = list(csv.DictReader((folder / rundir.STEPS).read_text("utf-8").splitlines()))
    assert sum(r["pass"] == "timing" for r in rows) == 2 * 16 - 2 and sum(r["pass"] == "torch" for r in rows) == 5
    assert [e["epoch"] for e in summary["epochs"]] == [1, 2]
    assert rundir.EPOCHS in rundir.read_manifest(folder)["files"]


@pytest.mark.slow
def test_reports_are_replaced_only_when_asked(run: tuple[Path, str]) -> None:
    from lorabench.collect.run import epoch_report

    folder, _ = run
    settings = spec(run_id="mine")
    with pytest.raises(UsageError, match="choose another --run-id, or replace it with --force"):
        epoch_report.place(settings, folder.with_name("second"), False)
    assert epoch_report.place(settings, folder.with_name("second"), True).name == "mine"
    (folder.parent / "reports" / "thesis").mkdir()
    with pytest.raises(UsageError, match="not one of a run"):
        epoch_report.place(spec(), folder.with_name("thesis"), True)


@pytest.mark.slow
def test_trackers_get_each_step_and_each_epoch(run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = run
    reports = folder.parent / "reports" / "mine"
    asked: dict[str, Any] = {}
    logged: list[tuple[int, dict[str, float]]] = []
    kept = types.SimpleNamespace(
        log=lambda values, step: logged.append((step, values)), summary={}, finish=lambda: None
    )  # fmt: skip
    fake = types.SimpleNamespace(init=lambda **words: asked.update(words) or kept, Settings=lambda **words: words)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    trackers.tell(folder, reports, spec(wandb=True, wandb_project="p", wandb_mode="offline"))
    assert (asked["project"], asked["mode"], asked["name"]) == ("p", "offline", "mine")
    assert [step for step, _ in logged] == sorted(step for step, _ in logged) and len(logged) == 30
    last = dict(logged)[31]
    assert last["epoch"] == 2 and last["validation/accuracy"] == rundir.read_summary(folder)["epochs"][1]["val_acc"]
    assert "step/loss" in last and kept.summary["step_latency_ms"]["p50"] > 0


@pytest.mark.slow
def test_tensorboard_reads_what_was_written(run: tuple[Path, str], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, _ = run
    trackers.tell(folder, tmp_path, spec(tensorboard=True))
    read = EventAccumulator(str(tmp_path)).Reload()
    found = {event.step: event.value for event in read.Scalars("validation/accuracy")}
    expected = [entry["val_acc"] for entry in rundir.read_summary(folder)["epochs"]]
    assert list(found) == [15, 31] and list(found.values()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"wandb": True}, "pip install wandb"), ({"tensorboard": True}, "pip install tensorboard")],
)
def test_packages_that_are_missing_are_named_before_the_run(
    settings: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=says):
        preflight._check_wanted_packages(spec(**settings))
