"""The temporary tables between a reader and the model, and the way rows get into them.

A reader hands over batches; a staging file of sql/1_staging renames and casts them; the rows wait in `staged_*`
tables until attribution (see analyze/model/completion.py) completes them. Texts are interned on the way: rows carry
name ids.

They wait as Arrow columns, which the arrays of the attribution share: a temporary table would be written and read once
more.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ... import sql
from ...progress import Progress
from ..store.database import Database
from .ahead import ahead

if TYPE_CHECKING:
    import pyarrow as pa

    from .waiting import WaitingRows

_T = TypeVar("_T")

# The columns of the model's tables that attribution computes; a staged table has all the others.
COMPUTED = {
    "range": ("range_id", "name_id", "is_unfinished", "covered_ns", "parent_id", "depth", "path_id"),
    "api_call": ("api_call_id", "is_duplicate"),
    "gpu_op": (
        "gpu_op_id",
        "api_call_id",
        "launch_start_ns",
        "launch_end_ns",
        "is_first_op",
        "range_id",
        "attribution_id",
        "operator_id",
    ),
    "memory_event": ("range_id", "operator_id", "is_quantisation"),
}


@dataclass
class Staging:
    """An open ingest of one source: where rows wait, under which source id, and who listens."""

    database: Database
    source_id: int
    progress: Progress
    _thread_cnt: int = 1  # that DuckDB may use
    _next_name_id: int = 0
    _waiting: "dict[str, WaitingRows]" = field(default_factory=dict)
    _casts: dict[tuple[str, str], str] = field(default_factory=dict)

    def create(self) -> None:
        """Make the empty staged tables, dropping those of the source before."""
        run = self.database.connection.execute
        ((self._thread_cnt,),) = run("select current_setting('threads')").fetchall()
        for table, computed in COMPUTED.items():
            columns = {c.name: c.sql_type for c in _table(table).columns if c.name not in computed}
            self.wait_as_columns(f"staged_{table}", columns | _handed_over(table))
        self.create_table(
            "staged_collective", "is_kernel boolean, device_id integer, stream_id bigint, " + _as_recorded("collective")
        )
        self.create_table("only_group", "ranks bigint[]")
        self.create_table(
            "staged_kernel_counter",
            "source_id integer, profiled_id bigint, name_id bigint, counter_id bigint, value double",
        )
        numbers = ("thread_id", "start_ns", "bytes", "rank_cnt", "rank", "peer", "root")
        self.create_table("nccl_payload", ", ".join(f"{name} bigint" for name in numbers) + ", communicator varchar")
        run("create or replace temp table staged_name as from name")
        ((self._next_name_id,),) = run("select coalesce(max(name_id) + 1, 0) from name").fetchall()
        run(f"create or replace temp table reading as select {self.source_id} as source_id")
        self.intern("values ('[unnamed]')")
        self.create_table("range_name", "text_id bigint, name_id bigint, is_operator boolean")  # of no ranges yet
        self.define("is_measured", "start_ns, end_ns", "is_measured")
        run("create or replace temp table unnamed as select name_id from staged_name where text = '[unnamed]'")

    @contextmanager
    def ahead(self, items: Iterable[_T]) -> Iterator[Iterator[_T]]:
        """The items, each made while the one before is in use, unless one thread is to do all (see ahead.py)."""
        if self._thread_cnt == 1:
            yield iter(items)
        else:
            with ahead(items) as coming:
                yield coming

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """While open, rows keep the order of their batch, so that the same file always gets the same keys."""
        run = self.database.connection.execute
        run("set threads = 1")
        try:
            yield
        finally:
            run(f"set threads = {self._thread_cnt}")

    def create_table(self, name: str, columns: str) -> None:
        """An empty temporary table of a reader's own."""
        self.database.connection.execute(f"create or replace temp table {name} ({columns})")

    def wait_as_columns(self, name: str, types: dict[str, str]) -> None:
        """An empty table whose rows wait as Arrow columns."""
        from .waiting import WaitingRows

        self._waiting[name] = WaitingRows(types)

    def drop(self, *names: str) -> None:
        """Give back the memory of a reader's temporary tables."""
        for name in names:
            if self._waiting.pop(name, None):
                self.database.connection.unregister(name)
            else:
                self.database.connection.execute(f"drop table {name}")

    def define(self, function: str, parameters: str, file: str) -> None:
        """A function for staging files, which is a staging file itself."""
        self.database.connection.execute(sql.staging_macro(function, parameters, file))

    def create_from(self, name: str, file: str) -> None:
        """A temporary table of a reader's own, filled by a staging file."""
        self.database.connection.execute(f"create or replace temp table {name} as {sql.staging(file)}")

    def intern(self, texts: str) -> None:
        """Give every distinct text of a one-column select a name id, unless it has one."""
        ((added,),) = self.database.connection.execute(
            f"""insert into staged_name
            select {self._next_name_id - 1} + row_number() over (order by t.text), t.text
            from (select distinct text from ({texts}) as t(text) where text is not null) as t
            anti join staged_name as known on known.text = t.text"""
        ).fetchall()
        self._next_name_id += added

    def load(self, file: str, into: str, batch: "pa.Table | None" = None) -> int:
        """Run a staging file over a batch and append its rows to a table; returns how many.

        The statement reads the relation `batch`: the Arrow table given here, or a temporary table of that name.
        """
        connection = self.database.connection
        if batch is not None:
            connection.register("batch", batch)
        try:
            return self.insert(sql.staging(file), into)
        finally:
            if batch is not None:
                connection.unregister("batch")

    def insert(self, select: str, into: str) -> int:
        """Append the rows of a select to a table, by the names of their columns; returns how many.

        Raises duckdb.ConversionException for a number that the table's types have no room for.
        """
        connection = self.database.connection
        if into not in self._waiting:
            ((rows,),) = connection.execute(f"insert into {into} by name {select}").fetchall()
            return int(rows)
        if (select, into) not in self._casts:  # a Kineto trace comes in many pieces
            self._casts[select, into] = self._cast(select, into)
        loaded = connection.sql(self._casts[select, into]).to_arrow_table()
        self._waiting[into].add(loaded)
        return len(loaded)

    def _cast(self, select: str, into: str) -> str:
        """A select with exactly the columns of a table whose rows wait, in their types."""
        given = set(self.database.connection.sql(select).columns)
        types = self._waiting[into].types.items()
        casts = ", ".join(f"{n if n in given else 'null'}::{type_} as {n}" for n, type_ in types)
        return f"select {casts} from ({select})"

    def columns(self, table: str) -> "pa.Table":
        """The rows that wait as columns, in the order in which they came; from now on SQL can read them too."""
        whole = self._waiting[table].table()
        self.database.connection.register(table, whole)
        return whole

    def append(self, table: str, parts: Iterable[dict[str, Any]]) -> None:
        """Join computed columns to staged ones by position, some rows at a time, and move them to the model's table.

        A column that is both staged and computed (the end of a range) is taken from what was computed.
        """
        import pyarrow as pa

        connection = self.database.connection
        waiting = self.columns(f"staged_{table}")
        done = 0
        for part in parts:
            computed = pa.table(part)
            columns = waiting.slice(done, len(computed))
            rows = {c.name: (computed if c.name in part else columns)[c.name] for c in _table(table).columns}
            connection.register("computed", pa.table(rows))
            connection.execute(f"insert into {table} from computed")
            done += len(computed)
        self.drop(f"staged_{table}")

    def write(self, table: str, columns: dict[str, Any]) -> None:
        """Insert columns by name into a table of the model, with this source's id where it has one."""
        import pyarrow as pa

        self.database.connection.register("computed", pa.table(columns))
        has_source = any(c.name == "source_id" for c in _table(table).columns)
        source = f"{self.source_id} as source_id, " if has_source else ""
        self.database.connection.execute(f"insert into {table} by name select {source}* from computed")

    def fill_by_definition(self, table: str, condition: str) -> None:
        """Fill a table with the rows of this source of the view that defines it."""
        self.fill_from(f"defined_{table}", table, condition)

    def fill_from(self, view: str, table: str, condition: str) -> None:
        """Append those rows of a view to a table of the model that a condition holds for."""
        self.database.connection.execute(f"insert into {table} by name select * from {view} where {condition}")

    def add_device(self, *values: object) -> None:
        """Record what the file says about one GPU: number, name, bytes of memory, multiprocessors."""
        columns = ("device_id", "name", "memory_bytes", "sm_cnt")
        types = {c.name: c.type for c in _table("device").columns}
        self.database.connection.execute(
            f"insert into device select ?, {', '.join(f'try_cast(? as {types[c]})' for c in columns)}",
            [self.source_id, *(_as_text(value) or None for value in values)],
        )

    def name_ranges(self, texts: str) -> None:
        """Intern the texts of ranges and the names that they share; fills the temporary table range_name."""
        self.intern(texts)
        run = self.database.connection.execute
        run(
            "create or replace temp table range_text as select name_id as text_id, text from staged_name "
            f"semi join ({texts}) as used(text) using (text)"
        )
        self.create_from("range_text_name", "range_name")
        self.intern("select name from range_text_name")
        run(
            "create or replace temp table range_name as select t.*, n.name_id "
            "from range_text_name as t join staged_name as n on n.text = t.name"
        )

    def set_source(self, column: str, value: object) -> None:
        """Fill one column of this source's row; NULL when the file holds something of another type there."""
        (kind,) = (c.type for c in _table("source").columns if c.name == column)
        self.database.connection.execute(
            f"update source set {column} = try_cast(? as {kind}) where source_id = ?", [_as_text(value), self.source_id]
        )

    def note_group(self, ranks: list[int]) -> None:
        """Record that all collectives whose group is not recorded are of these ranks; nothing for none."""
        if ranks:
            self.database.connection.execute("insert into only_group select try_cast(? as bigint[])", [str(ranks)])

    def fact(self, section: str, item: str, value: object, note: str | None = None) -> None:
        """Record what the file holds, lacks or lost, unless it says nothing; shown by the view trace_info."""
        if value is None or value == "":
            return
        self.database.connection.execute(
            "insert into source_fact values (?, ?, ?, ?, ?)",
            [self.source_id, section, item, str(value), note],
        )

    def scalar(self, statement: str) -> Any:
        """The single value of a query."""
        ((value,),) = self.database.rows(statement)
        return value


def moved_columns() -> dict[str, str]:
    """What is known of a copy or memset beside its row of gpu_op: SQL types by name."""
    return {c.name: c.sql_type for c in _table("memory_operation").columns if c.name != "gpu_op_id"}


def _as_recorded(table: str) -> str:
    """The columns of a table for what a reader finds in the file, in SQL."""
    said = ("thread_id", "start_ns", "end_ns", "name", "dtype", "in_element_cnt", "out_element_cnt", "group_size",
            "group_name", "group_description", "group_ranks", "comms_id", "seq", "src_rank", "dst_rank")  # fmt: skip
    return ", ".join(f"{column.name} {column.sql_type}" for column in _table(table).columns if column.name in said)


def _handed_over(table: str) -> dict[str, str]:
    """What readers stage for a table that it does not keep itself."""
    return {"api_call": {"event_class": "integer"}, "gpu_op": moved_columns()}.get(table, {})


def _table(name: str) -> sql.SqlFile:
    return next(t for t in sql.in_folder(sql.TABLES) if t.name == name)


def _as_text(value: object) -> str | None:
    """A value of the file as text, for DuckDB to cast or refuse."""
    return None if value is None else str(value)
