# Functions that are made, run and freed: keep_N runs a function at line N + 1 of made_N.py. Each takes the place of the
# one before.

import sys, time

def spin(n):
    t = 0
    for i in range(n):
        t += i * i
    return t

for i in range(20):
    source = "\n" * i + f"def made_{i}(n): return spin(n) + 1"
    exec(f"""def keep_{i}(n):
    made = {{}}
    exec(compile({source!r}, 'made_{i}.py', 'exec'), globals(), made)
    return made['made_{i}'](n) + 1
""")

i, stop = 0, time.time() + float(sys.argv[1])
while time.time() < stop:
    globals()[f"keep_{i % 20}"](300000)
    i += 1
