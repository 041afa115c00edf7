"""Known functions: the comment of each line names its function and, after >, those that it calls.

A sample is right if the innermost function is at a line of its own, and each caller at a line that calls the next one.
"""
import asyncio
import sys
import threading
import time


def spin(n):  # spin
    t = 0  # spin
    for i in range(n):  # spin
        t += i * i  # spin
    return t  # spin


def inner(n):  # inner
    return spin(n)  # inner > spin


def deep(d, n):  # deep
    if d == 0:  # deep
        return inner(n)  # deep > inner
    return deep(d - 1, n)  # deep > deep


class Größe:
    def berechne_größe_数(self, n):  # berechne_größe_数
        return spin(n)  # berechne_größe_数 > spin


def values(n):  # values
    for _ in range(n):  # values
        yield spin(50)  # values > spin


def consume(n):  # consume
    for _ in values(n):  # consume > values
        pass  # consume


async def wait_for(n):  # wait_for
    return spin(n)  # wait_for > spin


async def gather(n):  # gather
    for _ in range(n):  # gather
        await wait_for(50)  # gather > wait_for


def run(coroutine):  # run
    try:  # run
        coroutine.send(None)  # run > gather
    except StopIteration:  # run
        pass  # run


def key(x):  # key
    return spin(3) + x  # key > spin


def through_c(n):  # through_c
    return sorted(range(n), key=key)  # through_c > key


LONG = "long_" + "x" * 900
exec(f"def {LONG}(n):\n    return spin(n)\n")
long_function = globals()[LONG]

NUMBER = 0


def generated(n):  # generated
    global NUMBER  # generated
    NUMBER += 1  # generated
    name = f"made_{NUMBER % 100}"  # generated
    scope = {"spin": spin}  # generated
    exec(compile(f"def {name}(n):\n    return spin(n)\n", name + ".py", "exec"), scope)  # generated > made
    return scope[name](n)  # generated > made


def main(seconds):  # main
    end = time.process_time() + seconds  # main
    g = Größe()  # main
    while time.process_time() < end:  # main
        deep(20, 1000)  # main > deep
        g.berechne_größe_数(500)  # main > berechne_größe_数
        consume(20)  # main > consume
        run(gather(20))  # main > gather run
        through_c(100)  # main > through_c
        long_function(500)  # main > long
        generated(1000)  # main > generated


def thread(seconds):  # thread
    end = time.process_time() + seconds  # thread
    while time.process_time() < end:  # thread
        deep(3, 500)  # thread > deep


if __name__ == "__main__":
    seconds = float(sys.argv[1])
    for _ in range(2):
        threading.Thread(target=thread, args=(seconds,), daemon=True).start()
    main(seconds)  # <module> > main
