"""The help of a command with many options: a section for each group of them."""

from typing import Any

from typer.core import TyperCommand


class Grouped(TyperCommand):
    """A command whose help has a section for each `rich_help_panel` of its options, without rich's frames."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, the command's own options, then those of each group in the order in which it comes."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                group = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
                sections.setdefault(group, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
