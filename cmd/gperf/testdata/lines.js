// Functions that take long, and call few builtins: V8's own profile names their lines.
'use strict';

class Vector {
  constructor(x, y) {
    this.x = x;
    this.y = y;
  }

  length() {
    return Math.sqrt(this.x * this.x + this.y * this.y);
  }
}

function sum(a) {
  let t = 0;
  for (let i = 0; i < a.length; i++) {
    t += a[i];
  }
  for (let i = 0; i < a.length; i += 2) {
    t -= a[i] * 0.5;
  }
  return t;
}

function lengths(list) {
  let t = 0;
  for (const v of list) {
    t += v.length();
  }
  return t;
}

function mix(n) {
  let h = n;
  for (let i = 0; i < 20; i++) {
    h = (h * 31 + i) | 0;
    h ^= h >>> 7;
  }
  return h;
}

function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

const numbers = Float64Array.from({length: 5000}, (_, i) => i);
const vectors = Array.from({length: 1000}, (_, i) => new Vector(i, 1));
const cpu = () => process.cpuUsage().user / 1e6;
const end = cpu() + Number(process.argv[2]);
let result = 0;
while (cpu() < end) {
  // V8's profile counts much of what runs after a native call as the call: so such calls are rare.
  for (let round = 0; round < 100; round++) {
    result += sum(numbers);
    result += lengths(vectors);
    for (let i = 0; i < 100; i++) {
      result += mix(i);
    }
    result += fib(12);
  }
}
