"""A program whose time goes to `hot` and `cold`, three to one, in the main thread and in one named worker, for some seconds."""
import sys
import threading
import time


def inner(count):
    total = 0
    for number in range(count):
        total += number * number % 7
    return total


def hot():
    return inner(30000)


def cold():
    return inner(10000)


def main(seconds):
    end = time.time() + seconds
    while time.time() < end:
        hot()
        cold()


if __name__ == "__main__":
    seconds = float(sys.argv[1])
    worker = threading.Thread(target=main, args=(seconds,), name="worker")
    worker.start()
    main(seconds)
    worker.join()
