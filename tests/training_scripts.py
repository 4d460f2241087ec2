"""Training scripts as people have them, as texts for files. Each prints its losses; none but INSIDE knows lorabench."""

PLAIN = """
import sys, torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.head = nn.Linear(8, 1)
    def forward(self, input_ids):
        x = nn.functional.one_hot(input_ids, 8).float()
        for layer in self.layers:
            x = layer(x).relu()
        return self.head(x)
set = torch.utils.data.TensorDataset(torch.randint(0, 8, (64, 3)))
data = torch.utils.data.DataLoader(set, batch_size=4)
model = Net()
optimizer = torch.optim.AdamW(model.parameters())
for n, (x,) in zip(range(int(sys.argv[1])), data):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", n, repr(loss.item()))
"""

OWN_PROFILER = """
import sys, torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def step():
    loss = model(torch.ones(2, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", repr(loss.item()))
step()
if sys.argv[1] == "torch.profiler":
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[2])) as p:
        for n in range(6):
            step()
            p.step()
else:
    with torch.autograd.profiler.profile() as p:
        for n in range(6):
            step()
    assert p.key_averages()
step()
step()
"""

DISTRIBUTED = """
import os, sys, torch
import torch.distributed as dist
from torch import nn
def main(rank, world, folder):
    meeting = "env://" if how == "torchrun" else f"file://{folder}/meeting-{os.getppid()}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for n in range(3):
        loss = model(torch.full((2, 8), rank + 1.0)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        sys.stdout.write(f"loss of rank {rank} {loss.item()!r}\\n")  # whole, though torchrun starts Python with -u
    dist.destroy_process_group()
how, folder = sys.argv[1:]
if __name__ == "__main__":
    if how == "torchrun":
        main(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), folder)
    else:
        torch.multiprocessing.start_processes(main, (2, folder), 2, start_method=how)
"""

ENDS = """
import os, signal, sys, time, warnings, torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for n in range(3):
    loss = model(torch.ones(2, 8)).square().mean()
    loss.backward()
    optimizer.step()
    print("loss", repr(loss.item()), flush=True)
how = sys.argv[1]
print("the last words", file=sys.stderr)
warnings.warn("noise")
if how == "raise":
    raise ValueError("the reason")
if how == "_exit":
    os._exit(4)
os.kill(os.getpid(), getattr(signal, how))
time.sleep(60)
"""

# Imports in the order in which formatters sort them: transformers looks for torch before anyone imports it.
TRAINER = """
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
import torch
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2, use_cache=False))
model = get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"]))
data = [{"input_ids": torch.randint(0, 64, (8,)), "labels": torch.randint(0, 64, (8,))} for _ in range(16)]
arguments = TrainingArguments("out", max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=2,
    report_to=[], logging_steps=1, save_strategy="no", use_cpu=True, disable_tqdm=True)
trainer = Trainer(model, arguments, train_dataset=data)
trainer.train()
print("loss", [repr(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry])
"""

SFT = """
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer
import torch
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2, use_cache=False))
words = Tokenizer(models.WordLevel({"<unk>": 0, "<eos>": 1, "<pad>": 2, "a": 3, "b": 4}, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="<eos>", pad_token="<pad>")
arguments = SFTConfig("out", max_steps=3, per_device_train_batch_size=2, gradient_accumulation_steps=2, report_to=[],
    logging_steps=1, save_strategy="no", use_cpu=True, disable_tqdm=True, bf16=False, max_length=16)
trainer = SFTTrainer(model, args=arguments, train_dataset=Dataset.from_dict({"text": ["a b a b b b"] * 16}),
    processing_class=tokenizer, peft_config=LoraConfig(r=2, target_modules=["q_proj"]))
trainer.train()
print("loss", [repr(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry])
"""

LIGHTNING = """
import lightning, torch
from torch import nn
torch.manual_seed(0)
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    def training_step(self, batch, n):
        loss = self.net(batch[0]).square().mean()
        print("loss", n, repr(loss.item()))
        return loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
set = torch.utils.data.TensorDataset(torch.randn(16, 8))
trainer = lightning.Trainer(max_steps=4, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), torch.utils.data.DataLoader(set, batch_size=4))
"""

INSIDE = """
import sys, torch, lorabench
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def train(step):
    for n in range(6):
        loss = model(torch.ones(2, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("loss", repr(loss.item()))
        step()
if sys.argv[1] == "alone":
    train(lambda: None)
else:
    schedule = dict(wait=1, warmup=1, active=1, repeat=2) if sys.argv[1] == "schedule" else None
    with lorabench.profile(sys.argv[2], schedule=schedule, model=model) as run:
        train(run.step)
        if sys.argv[1] == "error":
            raise ValueError("the reason")
"""

CHILDREN = """
import subprocess, sys
started = [subprocess.Popen([sys.executable, sys.argv[1], "4"]) for _ in range(2)]
sys.exit(max(child.wait() for child in started))
"""

BACKGROUND = 'import subprocess\nsubprocess.Popen(["setsid", "sleep", "301"])\n' + PLAIN

ACCELERATE = """
import sys, torch
from accelerate import Accelerator
from torch import nn
accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(32, 8)), batch_size=4)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for x, in data:
    loss = model(x).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    sys.stdout.write(f"loss of rank {accelerator.process_index} {loss.item()!r}\\n")
"""

# What scripts do besides training, one thing after another; what each leaves is printed.
LAWFUL = """
import gc, os, sys, threading, weakref, torch
from torch import nn
torch.manual_seed(0)
def train(steps, model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for n in range(steps):
        loss = model(torch.ones(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("loss", repr(loss.item()))
    return weakref.ref(model)
thread = threading.Thread(target=train, args=(24, nn.Linear(4, 4)))
thread.start()
thread.join()
models = []
for n in range(2):
    models.append(train(1, nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))))
    gc.collect()
print("alive", [model() is not None for model in models])
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
order = []
model.register_forward_pre_hook(lambda module, given: order.append("own"))
train(2, model)
torch.save(model[0], sys.argv[1])
loaded = torch.load(sys.argv[1], weights_only=False)
loaded.register_forward_pre_hook(lambda module, given: order.append("loaded"))
print("saved", torch.equal(loaded(torch.ones(2, 4)), model[0](torch.ones(2, 4))), order)
print("scripted", torch.equal(torch.jit.script(model[0])(torch.ones(2, 4)), model[0](torch.ones(2, 4))))
print("traced", torch.equal(torch.jit.trace(model[0], torch.ones(2, 4))(torch.ones(1, 4)), model[0](torch.ones(1, 4))))
scaler = torch.amp.GradScaler("cpu")
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for n in range(4):
    scaler.scale(model(torch.ones(2, 4)).sum() * (float("inf") if n % 2 else 1.0)).backward()
    scaler.step(optimizer)
    scaler.update()
print("scale", scaler.get_scale())
try:
    os.execv("/no/such/program", ["program"])
except OSError as error:
    print("exec", error.errno)
train(1, model)
sys.stdout.flush()
os.execve(sys.executable, [sys.executable, "-c", "import os; print('became', os.environ['WHOM']); os._exit(status=3)"],
          env=os.environ | {"WHOM": "somebody"})
"""

# A loader's workers compute a lot; each batch brings how much memory its worker has, in MiB.
WORKERS = """
import resource, sys, torch
class Costly(torch.utils.data.Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, number):
        value = torch.ones(4)
        for n in range(1500):
            value = value + 1
        return torch.tensor([float(number), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024])
if __name__ == "__main__":
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    loader = torch.utils.data.DataLoader(Costly(), batch_size=8, num_workers=1, multiprocessing_context=sys.argv[1])
    used = []
    for n, batch in zip(range(40), loader):
        model(batch).sum().backward()
        optimizer.step()
        used.append(batch[-1, 1].item())
    print("grew", used[-1] - used[2])
"""

EVALUATING = """
import time, torch
def slow(rows):
    time.sleep(0.03)
    return torch.stack(rows)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
rows = [torch.ones(8)] * 200
train = iter(torch.utils.data.DataLoader(rows, batch_size=4, collate_fn=slow))
for n in range(14):
    for micro in range(2):
        model(next(train)).sum().backward()
    optimizer.step()
    if n % 4 == 3:
        for batch in torch.utils.data.DataLoader(rows[:12], batch_size=4, collate_fn=slow):
            with torch.no_grad():
                model(batch)
"""

KNOWN = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(256, 128), torch.nn.Linear(128, 64))
model.requires_grad_(False)
model[0].add_module("lora_A", torch.nn.ModuleDict({"mine": torch.nn.Linear(256, 32, bias=False)}))
optimizer = torch.optim.SGD(model[0].lora_A.parameters(), 0.1, momentum=0.9)
for n in range(6):
    rows = torch.ones(8, 256)
    (model[1](model[0](rows)).sum() + model[0].lora_A["mine"](rows).sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""

INTERRUPTED = """
import time, torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
try:
    for n in range(10**6):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        if n == 5:
            print("training", flush=True)
        time.sleep(0.01)
except KeyboardInterrupt:
    print("saved", flush=True)
"""

STEPS = """
import sys, torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
for n in range(int(sys.argv[1])):
    model(torch.ones(2, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

THREAD = """
import threading, torch
def train():
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    for n in range(6):
        model(torch.ones(2, 8)).square().mean().backward()
        optimizer.step()
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""

OWN_FOLDER = """
import os, sys, torch
if os.path.exists("ckpt"):
    sys.exit("ckpt exists, refusing to overwrite it")
os.mkdir("ckpt")
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for n in range(3):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
"""
