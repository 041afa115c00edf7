<?php
// The load of php: calls, objects, arrays, JSON, regular expressions, exceptions.
function fib(int $n): int { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }

class Shape {
    public function __construct(private float $a) {}
    public function area(): float { return $this->a * $this->a; }
}

function garbage(): float {
    $shapes = [];
    for ($i = 0; $i < 5000; $i++) $shapes[] = new Shape($i);
    usort($shapes, fn($a, $b) => $b->area() <=> $a->area());
    return array_sum(array_map(fn($s) => $s->area(), $shapes));
}

function words(): int {
    $text = str_repeat('the quick brown fox jumps over the lazy dog ', 500);
    $text = preg_replace_callback('/(\w+) (\w+)/', fn($m) => $m[2] . ' ' . $m[1], $text);
    return count(array_count_values(explode(' ', $text)));
}

function documents(): int {
    $rows = [];
    for ($i = 0; $i < 2000; $i++) $rows[] = ['id' => $i, 'tags' => ['a', 'b', (string)$i]];
    return count(json_decode(json_encode($rows), true));
}

function throwing(int $n): int {
    if ($n === 0) throw new RuntimeException('at the bottom');
    try { return throwing($n - 1); } finally { $n++; }
}

$end = microtime(true) + (float)$argv[1];
while (microtime(true) < $end) {
    fib(20);
    garbage();
    words();
    documents();
    for ($i = 0; $i < 100; $i++) { try { throwing(30); } catch (RuntimeException $e) { $e->getTraceAsString(); } }
    hash('sha256', str_repeat('x', 200000));
}
