"""MariaDB Connector/ODBC, by pyodbc and by isql of unixODBC: each begins a session as it does by itself, reads, and prints
`ok SESSION` and, after tabs, what it used with the versions, or why not."""

import datetime
import decimal
import os
import subprocess
import traceback

import pyodbc

DRIVER, ISQL = os.environ["SQL_ODBC"], os.environ["SQL_ISQL"]
LOGIN = f"DRIVER={DRIVER};SERVER={os.environ['SQL_HOST']};PORT={os.environ['SQL_PORT']};DATABASE=procprof;UID={os.environ['SQL_USER']};PWD={os.environ['SQL_PASSWORD']}"
TABLES = {"profiles", "nodes", "errors", "captures", "functions", "samples", "stacks", "top", "diff", "timeline"}


def same(found, expected):
    assert found == expected, f"{found!r} instead of {expected!r}"


def rows(cursor):
    return [tuple(row) for row in cursor.fetchall()]


def pyodbc_session():
    connection = pyodbc.connect(LOGIN)
    cursor = connection.cursor()
    for _ in range(2):
        cursor.execute("SELECT id, role FROM nodes WHERE id = ? AND name <> ?", 10001, "it's\\")
        same(rows(cursor), [(10001, "BE")])
    cursor.execute("SELECT @@autocommit, 'größe 温度', NULL, 1.5, CAST(2.5 AS DOUBLE), {d '2026-01-02'}, {ts '2026-01-02 03:04:05'}")
    values = (0, "größe 温度", None, decimal.Decimal("1.5"), 2.5, datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5))
    same(rows(cursor), [values])
    cursor.execute("SELECT {fn CONCAT('a', 'b')}, REPEAT('größe', 100000)")
    (text, long) = cursor.fetchone()
    same((text, len(long)), ("ab", 500000))
    connection.commit()
    connection.rollback()
    connection.autocommit = True
    try:
        cursor.execute("SELECT absent FROM nodes")
    except pyodbc.Error as error:
        same(error.args[0], "42S22")
    else:
        raise AssertionError("no error")
    same({row.table_name for row in cursor.tables(catalog="procprof")}, TABLES)
    same([row.table_name for row in cursor.tables(table="n%", tableType="TABLE")], ["nodes"])
    same([row[0] for row in cursor.tables(catalog="%", schema="", table="")], ["information_schema", "performance_schema", "procprof"])
    columns = [(row.column_name, row.data_type, row.type_name, row.column_size, row.ordinal_position) for row in cursor.columns("nodes")]
    same(columns[:2], [("id", pyodbc.SQL_BIGINT, "BIGINT", 19, 1), ("name", pyodbc.SQL_WVARCHAR, "VARCHAR", 255, 2)])
    same([(row.column_name, row.data_type) for row in cursor.columns("profiles", column="started%")], [("started", pyodbc.SQL_TYPE_TIMESTAMP), ("started_ns", pyodbc.SQL_BIGINT)])
    for answer in [cursor.primaryKeys("nodes"), cursor.statistics("nodes"), cursor.foreignKeys("nodes"), cursor.procedures()]:
        same(rows(answer), [])
    same("BIGINT" in [row.type_name for row in cursor.getTypeInfo(pyodbc.SQL_BIGINT)], True)
    # As 03.01.0015.
    version = ".".join(str(int(part)) for part in connection.getinfo(pyodbc.SQL_DRIVER_VER).split("."))
    connection.close()
    return [f"pyodbc {pyodbc.version}", f"MariaDB Connector/ODBC {version}"]


def isql_session():
    statements = "SELECT id, role FROM nodes WHERE id = 10001\nhelp nodes\n"
    done = subprocess.run([ISQL, "-b", "-k", LOGIN], input=statements, capture_output=True, text=True)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line.startswith("|")]
    assert ["10001", "BE"] in lines and any(line[3:4] == ["role"] for line in lines), f"{done}"
    version = subprocess.run([ISQL, "--version"], capture_output=True, text=True, check=True).stdout
    return [version.strip()]


for name, run in {"pyodbc": pyodbc_session, "isql": isql_session}.items():
    try:
        print("ok " + "\t".join([name, *run()]), flush=True)
    except Exception:
        print("failed", name, traceback.format_exc(), flush=True)
