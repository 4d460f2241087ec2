"""One rank of tests/collect/test_parallel.py: trains every case that it is given, in one launch of processes.

    python rank_program.py CASES.json RANK DEVICES FOLDER

Leaves FOLDER/CASE-RANK.pt: shares of the losses, and the trained weights by their names in one process, or the error.
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

STEPS = 5
TRAINED = ("lora_", "modules_to_save")  # PEFT stops the gradients of adapters whose turn it is not


def trained_weights(trainer: Any) -> dict[str, Any]:
    """What was trained, whole, by the names that it has in one process."""
    found = {}
    for name, parameter in trainer.model.named_parameters():
        if parameter.requires_grad or any(part in name for part in TRAINED):
            whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
            found[plain(name)] = whole.detach().clone()
    return found


def plain(name: str) -> str:
    parts = name.split(".")
    start = next(
        (n for n, part in enumerate(parts) if part in ("embed_tokens", "layers", "layer", "norm", "lm_head")), 0
    )
    return ".".join(parts[start:])


def train(trainer: Any, steps: int = STEPS) -> dict[str, Any]:
    losses = {}
    for tasks in trainer.iterations(0, steps):
        for task in tasks:
            done = trainer.run(task)
            losses |= {(task.step, a.name): v for a, v in zip(task.adapters, done.losses.tolist(), strict=True)}
    return {"losses": losses, "weights": trained_weights(trainer), "held": held(trainer)}


def held(trainer: Any) -> int:
    """How many numbers of the base's linear layers this process keeps between steps."""
    own = [p for n, p in trainer.model.named_parameters() if "_proj." in n and "lora_" not in n]
    return sum(p.to_local().numel() if hasattr(p, "to_local") else p.numel() for p in own)


def main() -> None:
    cases, number, cnt, folder = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    from lorabench.collect.processes.rank_environment import environment

    os.environ |= environment(number, cnt)
    import torch
    from lorabench.collect.parallel import kinds, ranks
    from lorabench.collect.settings.spec import from_dict

    torch.set_num_threads(1)
    listed = json.loads(cases.read_text("utf-8"))
    with ranks.joined(from_dict(listed[0]["settings"]), number, folder / "meeting") as rank:
        for case in listed:
            try:
                trainer = kinds.trainer(from_dict(case["settings"]), rank, with_ranges=False)
                result = train(trainer)
            except Exception:
                result = {"error": traceback.format_exc()}
            torch.save(result, folder / f"{case['name']}-{number}.pt")
            if "error" in result:
                os._exit(1)  # the others would wait for this one


if __name__ == "__main__":
    main()
