# Functions that are made, run and freed: keep_N runs two at line N % 2 + 1 of made_N.py. Each takes the place of the one
# before.

import sys, time

def spin(n):
    t = 0
    for i in range(n):
        t += i * i
    return t

for i in range(20):
    lines = "\n" * (i % 2)
    exec(f"""def keep_{i}(n):
    made = {{}}
    exec(compile({lines!r} 'def made_{i}(n): return spin(n) + 1', 'made_' + str({i}) + '.py', 'exec'), globals(), made)
    made['made_{i}'](n)
    del made
    return eval(compile({lines!r} 'lambda n: spin(n) + 1', 'made_' + str({i}) + '.py', 'eval'))(n) + 1
""")

i, stop = 0, time.process_time() + float(sys.argv[1])
while time.process_time() < stop:
    globals()[f"keep_{i % 20}"](150000)
    i += 1
