<?php
// Known functions: the comment of each line names its function and, after >, those that it calls.
// A sample is right if the innermost function is at a line of its own, and each caller at a line that calls the next one.

function spin($n) { // spin
	$t = 0; // spin
	for ($i = 0; $i < $n; $i++) { // spin
		$t += $i * $i; // spin
	} // spin
	return $t; // spin
} // spin

function inner($n) { // inner
	return spin($n); // inner > spin
} // inner

function deep($d, $n) { // deep
	if ($d == 0) { // deep
		return inner($n); // deep > inner
	} // deep
	return deep($d - 1, $n); // deep > deep
} // deep

class Größe {
	function berechne_größe_数($n) { // Größe::berechne_größe_数
		return spin($n); // Größe::berechne_größe_数 > spin
	} // Größe::berechne_größe_数

	static function of($n) { // Größe::of
		return (new Größe)->berechne_größe_数($n); // Größe::of > Größe::berechne_größe_数
	} // Größe::of
}

function values($n) { // values
	for ($i = 0; $i < $n; $i++) { // values
		yield spin(200); // values > spin
	} // values
} // values

function consume($n) { // consume
	foreach (values($n) as $v); // consume > values
} // consume

function key_of($x) { // key_of
	return spin(20) + $x; // key_of > spin
} // key_of

function through_c($n) { // through_c
	return array_map('key_of', range(1, $n)); // through_c > array_map
} // through_c

function sorted($n) { // sorted
	$l = range(1, $n); // sorted > range
	usort($l, function ($a, $b) { // sorted > usort
		return spin(20) - spin(20) + $a - $b; // closure > spin
	}); // sorted > usort
} // sorted

$long = 'long_' . str_repeat('x', 900); // {main} > str_repeat
eval("function $long(\$n) { return spin(\$n); }"); // {main}

function in_fiber($n) { // in_fiber
	$f = new Fiber(function () use ($n) { // in_fiber
		spin($n); // closure > spin
		Fiber::suspend(); // closure > Fiber::suspend
		spin($n); // closure > spin
	}); // in_fiber
	$f->start(); // in_fiber > Fiber::start
	spin($n); // in_fiber > spin
	$f->resume(); // in_fiber > Fiber::resume
} // in_fiber

function cpu() { // cpu
	$used = getrusage(); // cpu > getrusage
	return $used['ru_utime.tv_sec'] + $used['ru_utime.tv_usec'] / 1e6; // cpu
} // cpu

function main($seconds) { // main
	global $long; // main
	$end = cpu() + $seconds; // main > cpu
	while (cpu() < $end) { // main > cpu
		deep(20, 5000); // main > deep
		Größe::of(5000); // main > Größe::of
		consume(20); // main > consume
		through_c(100); // main > through_c
		sorted(20); // main > sorted
		$long(5000); // main > long
		in_fiber(1000); // main > in_fiber
	} // main
} // main

main((float)$argv[1]); // {main} > main
