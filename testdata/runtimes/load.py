"""The load of python: calls, generators, classes, JSON, regular expressions, exceptions, threads, C extensions."""
import collections
import hashlib
import json
import random
import re
import sys
import threading
import time
import zlib


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Shape:
    def __init__(self, a):
        self.a = a

    def area(self):
        return self.a * self.a

    def __lt__(self, other):
        return self.area() < other.area()


def garbage():
    shapes = [Shape(random.random()) for _ in range(3000)]
    for s in shapes:
        s.other = shapes  # a cycle, for the garbage collector
    return sorted(shapes)[0].area()


def words():
    text = "the quick brown fox jumps over the lazy dog " * 500
    return collections.Counter(re.findall(r"\w+", text)).most_common(3), re.sub(r"(\w+) (\w+)", lambda m: m.group(2), text)


def rows():
    yield from ({"id": i, "tags": ["a", "b", str(i)], "x": i / 3} for i in range(2000))


def documents():
    return len(json.loads(json.dumps(list(rows()), indent=1)))


def throwing(n):
    try:
        if n == 0:
            raise ValueError("at the bottom")
        return throwing(n - 1)
    finally:
        n += 1


def exceptions():
    for _ in range(200):
        try:
            throwing(30)
        except ValueError as e:
            str(e)


def native():
    data = bytes(200000)
    return zlib.compress(data), hashlib.sha256(data).hexdigest()


def work(end):
    while time.time() < end:
        fib(18)
        garbage()
        words()
        documents()
        exceptions()
        native()
        sorted(range(5000), key=lambda x: -x)


END = time.time() + float(sys.argv[1])
second = threading.Thread(target=work, args=(END,))
second.start()
work(END)
second.join()
