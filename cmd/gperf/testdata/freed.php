<?php
// Functions that are made, run and freed: keep_N runs one at line N % 2 + 1 of its code. Each takes the place of the one before.

function spin($n) {
    $t = 0;
    for ($i = 0; $i < $n; $i++) $t += $i * $i;
    return $t;
}

for ($i = 0; $i < 20; $i++) {
    $source = str_repeat("\n", $i % 2) . 'return function($n) { return spin($n) + 1; };';
    eval("function keep_$i(\$n) { \$made = eval(" . var_export($source, true) . '); return $made($n) + 1; }');
}

function cpu() {
    $used = getrusage();
    return $used['ru_utime.tv_sec'] + $used['ru_utime.tv_usec'] / 1e6;
}

$stop = cpu() + (float)$argv[1];
for ($i = 0; cpu() < $stop; $i++) ("keep_" . $i % 20)(1000000);
