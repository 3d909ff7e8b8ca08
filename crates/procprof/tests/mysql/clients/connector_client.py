"""mysql-connector-python as the tests drive it: statements in, canonical rows out."""

import os
import sys

import mysql.connector

from rows import answer

LOGIN = {name: os.environ.get("SQL_" + name.upper(), "") for name in ("host", "port", "user", "password", "ca", "auth")}


def execute(connection, statement, parameters):
    cursor = connection.cursor(prepared=bool(parameters))
    try:
        cursor.execute(statement, parameters)
        if cursor.description is None:
            return None
        return [column[0] for column in cursor.description], cursor.fetchall()
    finally:
        cursor.close()


def main():
    options = {"ssl_ca": LOGIN["ca"], "ssl_verify_cert": True} if LOGIN["ca"] else {"ssl_disabled": True}
    if LOGIN["auth"]:
        options["auth_plugin"] = LOGIN["auth"]
    connection = mysql.connector.connect(
        host=LOGIN["host"], port=int(LOGIN["port"]), user=LOGIN["user"], password=LOGIN["password"], use_pure=True, **options
    )
    for line in sys.stdin:
        answer(line, lambda statement, parameters: execute(connection, statement, parameters), mysql.connector.Error, lambda error: error.errno)
    connection.close()


main()
