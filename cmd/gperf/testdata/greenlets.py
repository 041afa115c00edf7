# Functions in greenlets, whose native callers run the functions of other greenlets.
import sys

import greenlet


def work(n):
    s = 0
    for i in range(n):
        s += i * i % 7
    return s


def key(n):
    return work(n)


def child(n):
    while True:
        sorted([n, n + 1], key=key)
        main.switch()


def inner(n):
    while True:
        work(n)
        greenlet.getcurrent().parent.switch()


def outer(n):
    g = greenlet.greenlet(inner)
    while True:
        g.switch(n)
        main.switch()


main = greenlet.getcurrent()
children = [greenlet.greenlet(child), greenlet.greenlet(outer), greenlet.greenlet(child)]
for _ in range(int(sys.argv[1])):
    for g in children:
        g.switch(50000)
    work(50000)
