"""What helps are made of besides options: examples, and sections for groups of options."""

import re
from typing import Any

from typer.core import TyperCommand

_LEAST = re.compile(r"x>=(\d+)")
_EXAMPLES = {
    "analyze": (
        "lorabench analyze run.sqlite -o report.csv",
        "lorabench analyze trace.json.gz -o all/",
        "lorabench analyze rank*.json.gz --report rank_summary",
        "lorabench analyze 's3://bucket/job/rank*.json.gz' -o job/ --workers 4",
        "lorabench analyze run.sqlite --range forward --sort wall --limit 10",
    ),
    "merge": (
        "lorabench merge job/",
        'lorabench query job/ "from straggler where is_straggler"',
    ),
    "split": (
        "lorabench split node.nsys-rep -o ranks/",
        "lorabench analyze ranks/ --report rank_summary",
        "lorabench compare ranks/rank0.sqlite ranks/rank1.sqlite",
    ),
    "summary": (
        "lorabench summary run.sqlite",
        "lorabench summary trace.json.gz --json",
    ),
    "what-if": (
        "lorabench what-if run.sqlite",
        "lorabench what-if run.sqlite --change graph=step/forward --change pin=*",
        "lorabench what-if run.sqlite --change scale=flash:0.5 --json",
    ),
    "views": ("lorabench views range_summary",),
    "cache": (
        "lorabench cache",
        "lorabench cache clear",
    ),
    "query": (
        "lorabench query run.sqlite finding",
        "lorabench query run.sqlite kernel_summary --sort mean --limit 5",
        'lorabench query run.sqlite "from step_summary where length_ns > 1e9" --csv',
    ),
    "doctor": (
        "lorabench doctor",
        "lorabench doctor --kind unsloth-bnb",
    ),
    "report": (
        "lorabench report run.sqlite -o page.html --open",
        "lorabench report run.sqlite -o page.html --window 1.2s..1.4s",
        "lorabench report switch batch -o compare.html",
        "lorabench report run.sqlite --perfetto run.json.gz",
    ),
    "validate": (
        "lorabench validate trace.json.gz",
        "lorabench validate run.sqlite --definitions",
    ),
    "compare": (
        "lorabench compare switch batch",
        "lorabench compare before.sqlite after.sqlite --by kernel --limit 10",
        "lorabench compare before after --markdown",
        "lorabench compare @main run --fail-above 5%",
    ),
    "baseline": (
        "lorabench baseline save main run",
        "lorabench compare @main another-run",
    ),
    "baseline save": ("lorabench baseline save main run",),
    "baseline list": ("lorabench baseline list",),
    "baseline remove": ("lorabench baseline remove main",),
    "collect": (
        "lorabench collect --lora-cnt 4 --peft-mode batch -o batch",
        "lorabench collect --model llama-2-7b --method qlora --profiler timing,nsys",
        "lorabench collect --parallel fsdp --devices 2 --lora-cnt 4",
        "lorabench collect --task sst2 --method lora --epochs 3 --learning-rate 1e-3",
        "lorabench collect -o mine -- python train.py --epochs 1",
    ),
    "improve": (
        "lorabench improve run --dry-run",
        "lorabench improve run -o better --rounds 4 --price-per-hour 2.5",
    ),
    "sweep": (
        "lorabench sweep --lora-cnt 1..12 --peft-mode switch,batch",
        "lorabench sweep --until-oom lora_cnt --peft-mode batch",
    ),
}


def examples(command: str) -> str:
    """What the help of a command ends with; \\b keeps its lines."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in _EXAMPLES[command])])


class Command(TyperCommand):
    """A command whose help has a section for each `rich_help_panel` of its options, without rich's frames.

    What a parameter is called stands alone, not with its Python type; a default is shown as [default: …].
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, the command's own options, then those of each group in the order in which it comes."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                group = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
                name = parameter.metavar or record[0] if is_argument else record[0]
                sections.setdefault(group, []).append((name, _plain(record[1])))
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _plain(text: str) -> str:
    """A help text as ours are: what typer adds stands after one space, and a least value is called one."""
    return _LEAST.sub(r"at least \1", text.replace("  [", " [").replace("]. [", "; "))
