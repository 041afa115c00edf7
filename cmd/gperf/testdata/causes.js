// causes.js N: N requests, from getppid to getuid, each with one cause, whose name it prints.
const crypto = require('crypto');
const cell = new Int32Array(new SharedArrayBuffer(4));

function cause_cpu() {
  for (const until = performance.now() + 20; performance.now() < until;) {}
}

function cause_sleep() { Atomics.wait(cell, 0, 0, 20); }

function cause_hash() { crypto.pbkdf2Sync('a', 'b', 25000, 64, 'sha512'); }

Atomics.wait(cell, 0, 0, 1000); // for a recorder to learn of this process
const causes = [cause_cpu, cause_sleep, cause_hash];
for (let i = 0; i < process.argv[2]; i++) {
  const cause = causes[i % causes.length];
  console.log(cause.name);
  process.ppid;
  cause();
  process.getuid();
}
