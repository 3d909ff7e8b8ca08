"""How a client's answer is printed for comparison: `> names`, a line per row, `! code` for an error, `ok` without rows."""

import sys


def text(value):
    if value is None:
        return "NULL"
    if isinstance(value, (bytes, bytearray)):
        value = value.decode()
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def answer(line, execute, failure, code):
    """Runs a line of `STATEMENT` or `STATEMENT<TAB>PARAMETER...`."""
    statement, *parameters = line.rstrip("\n").split("\t")
    try:
        result = execute(statement, tuple(parameters))
    except failure as error:
        print(f"! {code(error)}", flush=True)
        return
    if result is None:
        print("ok", flush=True)
        return
    names, rows = result
    print("> " + "\t".join(names))
    for row in rows:
        print("\t".join(text(value) for value in row))
    sys.stdout.flush()
