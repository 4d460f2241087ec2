"""Makes a large nsys export of a small one: the same run over and over, each time later and with ids of its own."""

import sqlite3
from contextlib import closing
from pathlib import Path

_TIMES = {"start", "end"}
_ID = "correlationId"


def tile(path: Path, kernels: int) -> None:
    """Repeat the events of the export at a path, in place, until it has about so many kernels."""
    with closing(sqlite3.connect(path)) as export:
        tables = [str(row[0]) for row in export.execute("select name from sqlite_master where type = 'table'")]
        columns = {t: [str(row[1]) for row in export.execute(f"pragma table_info({t})")] for t in tables}
        events = [t for t, names in columns.items() if set(names) >= _TIMES or _ID in names]

        def every(pick: str, column: str) -> list[int]:
            having = [t for t in events if column in columns[t]]
            found = [export.execute(f'select {pick}("{column}") from {t}').fetchone()[0] for t in having]
            return [value for value in found if value is not None]

        period = max(every("max", "end")) - min(every("min", "start")) + 1000
        shift = {"start": period, "end": period, _ID: max(every("max", _ID)) + 1}
        once = export.execute("select count(*) from CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0]
        for table in events:
            values = ", ".join(f'"{c}" + number * {shift[c]}' if c in shift else f'"{c}"' for c in columns[table])
            export.execute(f"create temp table once as select * from {table}")
            export.execute(
                "with recursive numbers(number) as (select 1 union all select number + 1 from numbers where number < ?)"
                f" insert into {table} select {values} from numbers cross join once",
                [kernels // once - 1],
            )
            export.execute("drop table once")
        export.commit()
