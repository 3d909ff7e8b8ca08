"""Python's clients and what is built on them: each begins a session as it does by itself, reads, and prints `ok SESSION`
and, after tabs, the clients that it used with their versions, or why not."""

import asyncio
import importlib.metadata
import os
import traceback

HOST, PORT = os.environ["SQL_HOST"], int(os.environ["SQL_PORT"])
USER, PASSWORD = os.environ["SQL_USER"], os.environ["SQL_PASSWORD"]
PLAIN = {"host": HOST, "port": PORT, "user": USER, "password": PASSWORD}
TABLES = {"profiles", "nodes", "errors", "captures", "functions", "samples", "stacks", "top", "diff", "timeline"}


def same(found, expected):
    assert found == expected, f"{found!r} instead of {expected!r}"


def session(connection, failure):
    """What every client of Python's DB-API can do; without autocommit, as they begin."""
    cursor = connection.cursor()
    cursor.execute("SELECT id, role FROM nodes WHERE id = %s AND name <> %s", (10001, "it's\\"))
    same([tuple(row) for row in cursor.fetchall()], [(10001, "BE")])
    cursor.execute("SELECT @@autocommit, @@tx_read_only, COUNT(*) + 0 FROM nodes WHERE 1 = 0")
    same([tuple(row) for row in cursor.fetchall()], [(0, 0, 0)])
    connection.commit()
    connection.rollback()
    try:
        cursor.execute("SELECT absent FROM nodes")
    except failure as error:
        same(error.args[0], 1054)
    else:
        raise AssertionError("no error")
    cursor.execute("SET autocommit = 1")
    cursor.execute("SELECT @@autocommit, REPEAT('größe', 100000)")
    autocommit, text = cursor.fetchone()
    same((autocommit, len(text)), (1, 500000))
    cursor.execute("SET sql_select_limit = 1")
    cursor.close()


def connector(**options):
    import mysql.connector

    options = {"ssl_disabled": True, "database": "procprof", **PLAIN, **options}
    connection = mysql.connector.connect(**options)
    session(connection, mysql.connector.Error)
    # By COM_RESET_CONNECTION, which keeps the database, and COM_CHANGE_USER.
    connection.cmd_reset_connection()
    cursor = connection.cursor()
    cursor.execute("SELECT DATABASE(), @@sql_select_limit < 1000")
    same(cursor.fetchall(), [("procprof", 0)])
    connection.start_transaction(isolation_level="READ COMMITTED", readonly=True)
    same(connection.in_transaction, True)
    connection.commit()
    same(connection.in_transaction, False)
    # Which the client itself refuses when it compresses.
    if "compress" not in options:
        connection.cmd_change_user(USER, PASSWORD, "procprof")
    connection.ping()
    connection.close()


def pymysql_session():
    import pymysql

    connection = pymysql.connect(ssl_disabled=True, database="procprof", **{**PLAIN, "password": PASSWORD.encode()})
    session(connection, pymysql.MySQLError)
    same(connection.get_autocommit(), True)
    connection.ping()
    connection.select_db("information_schema")
    connection.close()


def mysqlclient():
    import MySQLdb

    for options in [{}, {"compress": True}]:
        # It is linked with MariaDB's library, which asks for TLS by itself when it is not told otherwise.
        connection = MySQLdb.connect(host=HOST, port=PORT, user=USER, password=PASSWORD, database="procprof", charset="utf8mb4", **options)
        session(connection, MySQLdb.MySQLError)
        connection.ping()
        connection.close()


def asynchronous(module):
    async def run():
        connection = await module.connect(host=HOST, port=PORT, user=USER, password=PASSWORD, db="procprof")
        async with connection.cursor() as cursor:
            await cursor.execute("SELECT id FROM nodes WHERE id = %s", (10001,))
            same([tuple(row) for row in await cursor.fetchall()], [(10001,)])
        await connection.commit()
        connection.close()

    asyncio.run(run())


def aiomysql_session():
    import aiomysql

    asynchronous(aiomysql)


def asyncmy_session():
    import asyncmy

    asynchronous(asyncmy)


def sqlalchemy(driver):
    from sqlalchemy import create_engine, inspect, text
    from sqlalchemy.engine import URL

    engine = create_engine(URL.create(f"mysql+{driver}", USER, PASSWORD, HOST, PORT, "procprof"), isolation_level="READ COMMITTED")
    with engine.connect() as connection:
        found = connection.execute(text("SELECT id, role FROM nodes WHERE id = :id"), {"id": 10001})
        same([tuple(row) for row in found], [(10001, "BE")])
        connection.rollback()
    inspector = inspect(engine)
    same(set(inspector.get_table_names()), TABLES)
    same(sorted(inspector.get_schema_names()), ["information_schema", "performance_schema", "procprof"])
    names = [column["name"] for column in inspector.get_columns("nodes")]
    same(names[:3], ["id", "name", "role"])
    same((inspector.get_indexes("nodes"), inspector.get_foreign_keys("nodes")), ([], []))
    engine.dispose()


def django_session():
    from django.conf import settings

    options = {"ENGINE": "django.db.backends.mysql", "NAME": "procprof", "HOST": HOST, "PORT": PORT, "USER": USER, "PASSWORD": PASSWORD}
    settings.configure(DATABASES={"default": options}, USE_TZ=True)
    import django

    django.setup()
    from django.db import connection, models, transaction

    with connection.cursor() as cursor:
        cursor.execute("SELECT id FROM nodes WHERE id = %s", [10001])
        same(cursor.fetchall(), ((10001,),))
        same({table.name for table in connection.introspection.get_table_list(cursor)}, TABLES)
        same(connection.introspection.get_table_description(cursor, "nodes")[0].name, "id")
        same(connection.introspection.get_constraints(cursor, "nodes"), {})

    class Node(models.Model):
        id = models.BigIntegerField(primary_key=True)
        name = models.TextField()

        class Meta:
            app_label, db_table, managed = "procprof", "nodes", False

    with transaction.atomic():
        same(Node.objects.filter(id=10001).count(), 1)
        same(list(Node.objects.filter(name__icontains="BE").values_list("id", flat=True)), [10001])
    connection.close()


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


def libmariadb():
    import MySQLdb

    # The release's: its fixes change the last part.
    return "libmariadb " + ".".join(MySQLdb.get_client_info().split(".")[:2])


def libmysqlclient():
    import _mysql_connector

    return f"libmysqlclient {_mysql_connector.MySQL().get_client_info()}"


CONNECTOR, SQLALCHEMY = "mysql-connector-python", "SQLAlchemy"
SESSIONS = {
    "mysql-connector-python": (lambda: connector(use_pure=True), lambda: [version(CONNECTOR)]),
    "mysql-connector-python, compressed": (lambda: connector(use_pure=True, compress=True), lambda: [version(CONNECTOR)]),
    "mysql-connector-python in C": (lambda: connector(use_pure=False), lambda: [version(CONNECTOR), libmysqlclient()]),
    "PyMySQL": (pymysql_session, lambda: [version("PyMySQL")]),
    "mysqlclient": (mysqlclient, lambda: [version("mysqlclient"), libmariadb()]),
    "aiomysql": (aiomysql_session, lambda: [version("aiomysql")]),
    "asyncmy": (asyncmy_session, lambda: [version("asyncmy")]),
    "SQLAlchemy with PyMySQL": (lambda: sqlalchemy("pymysql"), lambda: [version(SQLALCHEMY)]),
    "SQLAlchemy with mysql-connector-python": (lambda: sqlalchemy("mysqlconnector"), lambda: [version(SQLALCHEMY)]),
    "SQLAlchemy with mysqlclient": (lambda: sqlalchemy("mysqldb"), lambda: [version(SQLALCHEMY)]),
    "Django": (django_session, lambda: [version("Django")]),
}

for name, (run, versions) in SESSIONS.items():
    try:
        run()
        print("ok " + "\t".join([name, *versions()]), flush=True)
    except Exception:
        print("failed", name, traceback.format_exc(), flush=True)
