"""Formats of fine-tuning data: what is trained of each, whatever the tokenizer, and what a malformed record is told."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lorabench.collect.settings.spec import from_dict  # noqa: E402
from lorabench.collect.workload import conversations, models, packing  # noqa: E402
from lorabench.collect.workload.data import IGNORED, Source, joined  # noqa: E402
from lorabench.collect.workload.training import Trainer  # noqa: E402
from lorabench.errors import InputError, UsageError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
CPU = torch.device("cpu")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FORGETFUL = "{% for m in messages %}{{ m['content'] if loop.last else 'earlier' }};{% endfor %}"
STRICT = "{% if messages[0]['role'] != 'user' %}{{ raise_exception('a user begins') }}{% endif %}" + CHATML
CHAT = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Two and two?"},
    {"role": "assistant", "content": "Four."},
    {"role": "user", "content": "And one?"},
    {"role": "assistant", "content": "Five, then."},
]


def spec(**more: Any) -> Any:
    return from_dict({"model": "tiny", "seq_len": 400, "batch_size": 2, "device": "cpu", "rank": 4, **more})


def tokenizer(template: str | None = None, fast: bool = True) -> Any:
    """A byte-level tokenizer with a few merges, made here: no download."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["user assistant system Four Five then short " * 3], trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")
    wrapped.chat_template = template
    if not fast:
        wrapped = Slow(wrapped)
    return wrapped


class Slow:
    """A tokenizer that does not say where its tokens are."""

    is_fast = False

    def __init__(self, other: Any):
        self.other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self.other, name)

    def __call__(self, text: str, **options: Any) -> Any:
        assert "return_offsets_mapping" not in options
        return self.other(text, **options)


def trained(record: dict[str, Any], tool: Any = None, longest: int = 400) -> tuple[str, str]:
    """(what a model reads, what of it is trained), as texts."""
    text = conversations.text_of(record, tool, "here")
    assert text is not None
    words = conversations.tokenise(text, tool, 256, longest)
    own = [i for i, is_answer in zip(words.ids, words.is_answer, strict=True) if is_answer]

    def said(ids: list[int]) -> str:
        return tool.decode(ids) if tool is not None else bytes(ids).decode()

    return said(words.ids), said(own)


FOUR = "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nTwo and two?<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize("fast", [True, False])
def test_a_chat_is_written_as_the_template_says_and_answers_are_trained(fast: bool) -> None:
    read, own = trained({"messages": CHAT}, tokenizer(CHATML, fast))
    assert read.startswith(FOUR + "Four.<|im_end|>") and own == "Four.<|im_end|>\nFive, then.<|im_end|>\n"
    whole = tokenizer(CHATML)
    ids = whole.apply_chat_template(CHAT, tokenize=True, return_dict=False)
    text = conversations.text_of({"messages": CHAT}, whole, "here")
    assert text is not None
    assert conversations.tokenise(text, whole, 300, 400).ids == ids


def test_a_chat_without_a_template_has_a_plain_one() -> None:
    read, own = trained({"messages": CHAT[1:3]}, tokenizer())
    assert read == "### User:\nTwo and two?\n\n### Assistant:\nFour.</s>\n\n" and own == "Four.</s>"
    assert trained({"messages": CHAT[1:3]}) == ("### User:\nTwo and two?\n\n### Assistant:\nFour.\n\n", "Four.")


@pytest.mark.parametrize(
    ("record", "answer"),
    [
        ({"conversations": [{"from": "human", "value": "Hé?"}, {"from": "gpt", "value": "Hö."}]}, "Hö."),
        ({"messages": [{"role": "user", "content": "Hé?"}, {"role": "assistant", "content": [{"type": "text",
          "text": "Hö."}]}], "conversations": None}, "Hö."),
        ({"instruction": "Greet", "input": "in German", "output": "Hallö"}, "Hallö"),
        ({"instruction": "Greet", "output": "Hallö"}, "Hallö"),
        ({"prompt": "2 + 2 =", "completion": " vier"}, " vier"),
        ({"prompt": [{"role": "user", "content": "?"}], "completion": [{"role": "assistant", "content": "!"}]}, "!"),
        ({"text": "all öf it"}, "all öf it"),
        ({"sentence": "all of it", "text": None}, "all of it"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["none", "fast", "slow"])
def test_every_format_trains_its_answer(record: dict[str, Any], answer: str, kind: str) -> None:
    tool = None if kind == "none" else tokenizer(fast=kind == "fast")
    read, own = trained(record, tool)
    ends = tool is not None and "text" not in record
    assert own == answer + ("</s>" if ends else "") and own in read


def test_a_long_text_is_cut_before_it_is_tokenised() -> None:
    tool = tokenizer()
    long = conversations.Text("user assistant " * 700_000)  # 10 MB
    seen = []

    class Counting(Slow):
        def __call__(self, text: str, **options: Any) -> Any:
            seen.append(len(text))
            return self.other(text, **options)

    words = conversations.tokenise(long, Counting(tool), 300, 64)
    assert max(seen) < 100_000 and len(words.ids) == 64
    assert words.ids == tool("user assistant " * 100)["input_ids"][:64]


def write(path: Path, *records: Any) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return str(path)


@pytest.mark.parametrize("train_on", ["answer", "all"])
def test_labels_are_those_of_the_answer_or_of_all(train_on: str, tmp_path: Path) -> None:
    data = write(tmp_path / "x.jsonl", {"prompt": "abc", "completion": "de"})
    batch = Source(spec(data=data, train_on=train_on), 256).stream("a", 1).next()
    (ids,), (labels,) = batch.input_ids.tolist(), batch.labels.tolist()
    assert bytes(ids) == b"abcde"
    assert labels == (ids if train_on == "all" else [IGNORED] * 3 + ids[3:])


def test_records_whose_answer_is_cut_off_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    records = [{"prompt": "a" * 20, "completion": "b"}, {"prompt": "a", "completion": "b" * 40}]
    source = Source(spec(data=write(tmp_path / "x.jsonl", *records), seq_len=16), 256)
    batches = [source.stream(name, 1).next() for name in ("a", "b")]
    assert [b.labels.tolist()[0] for b in batches] == [[IGNORED] + [98] * 15] * 2
    assert source.notes == [
        f"1 of 2 records of {tmp_path}/x.jsonl are left out: no answer begins within --seq-len 16"
    ]  # fmt: skip
    with pytest.raises(InputError, match="no answer begins within --seq-len 8; raise it, or --train-on all"):
        Source(spec(data=write(tmp_path / "y.jsonl", records[0]), seq_len=8), 256).stream("a", 1)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"messages": "hi"}, "record 1: messages must be a list of turns"),
        ({"messages": []}, "messages must be a list of turns"),
        ({"messages": ["hi"]}, "turn 1 must be an object with role and content"),
        ({"messages": [{"content": "x"}]}, "turn 1: role is missing; it must be one of system"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "role is 'bot'"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "role is \"\\['user'\\]\""),
        ({"messages": [{"role": "user", "content": ""}]}, "turn 1: content is empty"),
        ({"messages": [{"role": "user"}]}, "content is missing"),
        ({"messages": [{"role": "user", "content": 3}]}, "content must be a string, not int"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "parts that are not text"),
        ({"messages": [{"role": "user", "content": "x"}]}, "no turn of the assistant"),
        ({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{}]}]}, "calls tools"),
        ({"conversations": [{"from": "user"}]}, "turn 1: value is missing"),
        ({"instruction": "x"}, "output is missing"),
        ({"instruction": "x", "output": "  "}, "output is empty"),
        ({"instruction": "x", "input": 3, "output": "y"}, "input must be a string"),
        ({"prompt": "x"}, "completion is missing"),
        ({"prompt": [], "completion": "y"}, "prompt must be a string, not list"),
        ({"text": 3}, "text must be a string, not int"),
        ({"question": "x"}, "none of what can be trained: text, messages"),
        (["x"], "is not an object"),
    ],
)
def test_a_malformed_record_is_named(record: Any, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says) as caught:
        Source(spec(data=write(tmp_path / "x.jsonl", record)), 256).stream("a", 1)
    assert "record 1" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("template", "says"),
    [(FORGETFUL, "writes a turn differently when others follow"), (STRICT, "refuses it: a user begins")],
)
def test_a_template_that_does_not_fit_is_named(template: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        conversations.text_of({"messages": CHAT}, tokenizer(template), "record 1")


def test_a_saved_chat_dataset_is_read(tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.Table.from_pylist([{"messages": CHAT[1:3], "text": None}])
    with pa.OSFile(str(tmp_path / "data-00000-of-00001.arrow"), "wb") as out, pa.ipc.new_stream(out, table.schema) as w:
        w.write_table(table)
    batch = Source(spec(data=str(tmp_path)), 256).stream("a", 1).next()
    assert bytes(batch.labels[batch.labels != IGNORED].tolist()) == b"Four."


def test_packed_rows_are_full_and_lose_nothing() -> None:
    source = Source(spec(seq_len=32, lengths="uniform", packing=True), 256)
    apart = Source(spec(seq_len=32, lengths="uniform"), 256).stream("a", 1)
    stream = source.stream("a", 3)
    batches = [stream.next() for _ in range(3)]
    for batch in batches:
        for ids, mask, labels, positions in zip(
            batch.input_ids, batch.attention_mask, batch.labels, batch.position_ids, strict=True
        ):
            starts = [*(positions == 0).nonzero().flatten().tolist(), len(ids)]
            for begin, end in pairwise(starts):
                if not mask[begin]:
                    continue
                single = apart.next()
                assert ids[begin:end].tolist() == single.input_ids[0].tolist()
                assert labels[begin:end].tolist() == [IGNORED, *single.labels[0, 1:].tolist()]
    assert batches[0].tokens()[1] / batches[0].tokens()[0] > 0.6


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_sequences_have_the_losses_that_they_have_apart(attention: str) -> None:
    settings = spec(seq_len=32, lengths="uniform", packing=True, gradient_checkpointing="none", dropout=0)
    trainer = Trainer(settings, CPU)
    trainer.base.set_attn_implementation(attention)
    packing.check(trainer.base, CPU)
    batch = trainer._streams["adapter_0"].next()
    with torch.no_grad():
        packed = each_loss(trainer.model(**batch.inputs()).logits, batch.labels)
        borders = packing.borders_of(batch.position_ids)
        checked = 0
        for row in range(batch.rows):
            for number in range(int(borders[row].max()) + 1):
                where = borders[row] == number
                ids, labels = batch.input_ids[row][where][None], batch.labels[row][where][None]
                if (labels == IGNORED).all():
                    continue
                alone = each_loss(trainer.model(input_ids=ids).logits, labels)
                own = packed[row][where]
                assert torch.allclose(own[:-1], alone[0, :-1], rtol=1e-5, atol=1e-6)
                checked += 1
    assert checked >= 4


def each_loss(logits: Any, labels: Any) -> Any:
    """The loss of each position's next token, 0 where it is ignored."""
    shifted = torch.nn.functional.cross_entropy(
        logits[:, :-1].transpose(1, 2), labels[:, 1:], ignore_index=IGNORED, reduction="none"
    )
    return torch.cat([shifted, torch.zeros(len(labels), 1)], 1)


@pytest.mark.parametrize("more", [{"peft_mode": "batch", "lora_cnt": 2}, {"lora_cnt": 2}, {"method": "full"}], ids=str)
def test_packed_training_runs_in_every_mode_with_the_same_losses(more: dict[str, Any]) -> None:
    settings = {"model": "tiny", "seq_len": 24, "batch_size": 2, "lengths": "uniform", "packing": True, "device": "cpu"}
    trainer = Trainer(from_dict({**settings, **more}), CPU)
    found = [v for tasks in trainer.iterations(0, 2) for task in tasks for v in trainer.run(task).losses.tolist()]
    if more.get("peft_mode") == "batch":
        switch = Trainer(from_dict({**settings, "lora_cnt": 2}), CPU)
        apart = [v for tasks in switch.iterations(0, 2) for task in tasks for v in switch.run(task).losses.tolist()]
        assert found == pytest.approx(apart, rel=1e-6)
    assert all(4 < loss < 7 for loss in found)


def test_joined_packed_rows_stay_apart() -> None:
    streams = [Source(spec(seq_len=n, lengths="uniform", packing=True), 256).stream("a", 2) for n in (16, 32)]
    batches = [s.next() for s in streams]
    union = joined(batches)
    assert union.position_ids.shape == union.input_ids.shape
    padded = union.position_ids[:2, batches[0].input_ids.shape[1] :]
    assert (padded == torch.arange(padded.shape[1])).all()
    assert union.looked_at() < union.input_ids.shape[1]


def test_a_model_that_cannot_keep_packed_sequences_apart_is_refused() -> None:
    base = models.build(spec(), CPU)
    forward = base.forward
    base.forward = lambda **inputs: forward(
        **{**inputs, "attention_mask": torch.ones_like(inputs["input_ids"])}  # which stands for: no borders
    )
    with pytest.raises(UsageError, match="--packing would change what is trained: in LlamaForCausalLM"):
        packing.check(base, CPU)


def test_texts_for_a_checkpoint_without_a_tokenizer_are_refused_and_token_ids_are_trained(tmp_path: Path) -> None:
    models.build(spec(), CPU).save_pretrained(tmp_path / "model")
    settings = {"model": str(tmp_path / "model"), "data": write(tmp_path / "texts.jsonl", {"text": "to be"})}
    with pytest.raises(InputError, match=r"record 1 is text, .*: it has no tokenizer; save the tokenizer into its"):
        Trainer(spec(**settings), CPU)
    trainer = Trainer(spec(**settings | {"data": write(tmp_path / "ids.jsonl", {"input_ids": [1, 2, 3]})}), CPU)
    assert trainer._streams["adapter_0"].next().input_ids.tolist() == [[1, 2, 3]] * 2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"packing": True}, "with sequences of fixed length: each fills a row"),
        ({"packing": True, "lengths": "uniform", "model": "tiny-distilbert"}, "tiny-distilbert is a classifier"),
        ({"train_on": "all"}, "--train-on is for --data"),
    ],
)
def test_settings_of_data_that_change_nothing_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        spec(**settings)
