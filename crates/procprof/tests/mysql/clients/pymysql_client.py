"""PyMySQL as the tests drive it: statements in, canonical rows out."""

import os
import sys

import pymysql

from rows import answer

LOGIN = {name: os.environ.get("SQL_" + name.upper(), "") for name in ("host", "port", "user", "password", "ca")}


def execute(connection, statement, parameters):
    with connection.cursor() as cursor:
        cursor.execute(statement.replace("?", "%s"), parameters) if parameters else cursor.execute(statement)
        if cursor.description is None:
            return None
        return [column[0] for column in cursor.description], list(cursor.fetchall())


def main():
    # It takes texts for Latin-1.
    tls = {"ca": LOGIN["ca"]} if LOGIN["ca"] else None
    connection = pymysql.connect(
        host=LOGIN["host"], port=int(LOGIN["port"]), user=LOGIN["user"], password=LOGIN["password"].encode(), ssl=tls, ssl_disabled=tls is None
    )
    for line in sys.stdin:
        answer(line, lambda statement, parameters: execute(connection, statement, parameters), pymysql.MySQLError, lambda error: error.args[0])
    connection.close()


main()
