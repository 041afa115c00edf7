"""Prints tables of lines with their meaning, for lines.json: python3.X lines.py functions.py"""
import json
import sys

EXTRA = """
def far(a):
    x = (a +



         1)
%s    return [x,
            x for_ in ()] if False else x
""" % ("\n" * 300)


def codes(code):
    yield code
    for c in code.co_consts:
        if hasattr(c, "co_code"):
            yield from codes(c)


def lines(code):
    if sys.version_info >= (3, 10):
        last = None
        for start, end, line in code.co_lines():
            if start < end and line != last:
                yield [start, line or 0]
                last = line
        return
    import dis
    for off, line in dis.findlinestarts(code):
        yield [off, line]


source = open(sys.argv[1]).read() + EXTRA.replace("x for_ in ()", "x")
for c in codes(compile(source, "f.py", "exec")):
    table = c.co_linetable if sys.version_info >= (3, 10) else c.co_lnotab
    print(json.dumps({"version": sys.version_info[1], "name": c.co_name, "first": c.co_firstlineno,
                      "size": len(c.co_code), "table": table.hex(), "lines": list(lines(c))}))
