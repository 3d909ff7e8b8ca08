"""Runs SQL statements on an engine: `run.py ENGINE FOLDER`, the statements on standard input, separated by zero bytes.

Those before an empty one make views; the rows of the others are printed, cells separated by tabs, rows by line breaks,
statements by zero bytes. With a number behind the folder, each of the others is run so many times, and the times in
seconds are printed in place of the rows.
"""

import os
import sys
import time


def duckdb(folder):
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    return lambda statement: connection.execute(statement).fetchall()


def clickhouse(folder):
    from chdb import session
    import pyarrow

    clickhouse = session.Session()

    def run(statement):
        answer = clickhouse.query(statement, "ArrowStream").bytes()
        return rows(pyarrow.ipc.open_stream(answer).read_all()) if answer else []

    return run


def datafusion(folder):
    import datafusion

    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(2))

    def run(statement):
        return rows(context.sql(statement).to_arrow_table())

    return run


def databend(folder):
    import databend

    # Its data is in the working folder.
    context = databend.SessionContext()

    def run(statement):
        answer = context.sql(statement)
        if not statement.startswith(("SELECT", "WITH")):
            return answer.collect()
        return [row for batch in answer.to_py_arrow() for row in rows(batch)]

    return run


def spark(folder):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for key, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": os.path.join(folder, "spark"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    return lambda statement: [tuple(row) for row in session.sql(statement).collect()]


def starrocks(folder):
    return syntax("starrocks")


def trino(folder):
    return syntax("trino")


def syntax(dialect):
    """Parses statements; the rows are the columns of the tables that were declared: table, name, type, NOT NULL."""
    import sqlglot
    from sqlglot import expressions

    columns = []

    def run(statement):
        parsed = sqlglot.parse_one(statement, read=dialect, error_level=sqlglot.ErrorLevel.RAISE)
        if isinstance(parsed, expressions.Command) and not statement.startswith("SET "):
            raise ValueError("not understood")
        if isinstance(parsed, expressions.Create) and isinstance(parsed.this, expressions.Schema):
            for column in parsed.this.find_all(expressions.ColumnDef):
                null = "NOT NULL" if column.find(expressions.NotNullColumnConstraint) else ""
                columns.append((parsed.this.this.name, column.name, column.kind.sql(dialect), null))
        return columns

    return run


def rows(table):
    return list(zip(*(column.to_pylist() for column in table.columns)))


def text(cell):
    return "NULL" if cell is None else str(cell)


def timed(run, statement, times):
    seconds = []
    for _ in range(times):
        start = time.monotonic()
        run(statement)
        seconds.append(time.monotonic() - start)
    return [seconds]


def main():
    engine, folder, *times = sys.argv[1:]
    run = globals()[engine](folder)
    statements = sys.stdin.read().split("\0")
    asked = statements.index("")
    for statement in statements[:asked]:
        run(statement)
    answers = []
    for statement in statements[asked + 1 :]:
        try:
            found = timed(run, statement, int(times[0])) if times else run(statement)
        except Exception as error:
            raise SystemExit(f"{engine}: {statement}\n{error}")
        answers.append("\n".join("\t".join(text(cell) for cell in row) for row in found))
    sys.stdout.write("\0".join(answers))


main()
