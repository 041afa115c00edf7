// Known functions: the comment of each line names its function and, after >, those that it calls.
'use strict';

function spin(n) {  // spin
  let t = 0;  // spin
  for (let i = 0; i < n; i++) {  // spin
    t = (t * 31 + i) % 1000003;  // spin
  }  // spin
  return t;  // spin
}

function inner(n) {  // inner
  return spin(n);  // inner > spin
}

function deep(d, n) {  // deep
  if (d === 0) {  // deep
    return inner(n);  // deep > inner
  }  // deep
  return deep(d - 1, n);  // deep > deep
}

class Größe {
  constructor(n) {  // Größe
    this.n = spin(n);  // Größe > spin
  }  // Größe

  berechne_größe_数(n) {  // berechne_größe_数
    return spin(n);  // berechne_größe_数 > spin
  }  // berechne_größe_数

  static still(n) {  // still
    return spin(n);  // still > spin
  }  // still
}

function* values(n) {  // values
  for (let i = 0; i < n; i++) {  // values
    yield spin(500);  // values > spin
  }  // values
}

function consume(n) {  // consume
  let t = 0;  // consume
  for (const v of values(n)) {  // consume > values
    t += v;  // consume
  }  // consume
  return t;  // consume
}

async function wait_for(n) {  // wait_for
  await null;  // wait_for
  return spin(n);  // wait_for > spin
}

function closure(k) {  // closure
  const adder =  // closure
    (n) => {  // adder
      return spin(n) + k;  // adder > spin
    };  // adder
  return adder(1000);  // closure > adder
}

function each(n) {  // each
  const item =  // each
    function (x) {  // item
      return spin(n) + x;  // item > spin
    };  // item
  return [1, 2, 3].map(item);  // each > item
}

function compare(a, b) {  // compare
  return spin(20) * 0 + a - b;  // compare > spin
}

function sort() {  // sort
  return [5, 3, 9, 1, 7, 2].sort(compare);  // sort > compare
}

const named = {
  property: function (n) {  // property
    return spin(n);  // property > spin
  },  // property
};

function long_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx(n) {  // long
  return spin(n);  // long > spin
}

const made = new Function('spin', 'n', 'return spin(n);');
const evaluated = eval('(function evaluated(n) {\n  return spin(n);\n})');

function cpu() {  // cpu
  return process.cpuUsage().user / 1e6;  // cpu
}

async function main() {  // main
  const end = cpu() + Number(process.argv[2] || 1);  // main > cpu
  while (cpu() < end) {  // main > cpu
    deep(10, 1000);  // main > deep
    new Größe(1000).berechne_größe_数(1000);  // main > Größe berechne_größe_数
    Größe.still(1000);  // main > still
    consume(3);  // main > consume
    closure(2);  // main > closure
    each(300);  // main > each
    sort();  // main > sort
    named.property(1000);  // main > property
    long_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx(1000);  // main > long
    made(spin, 1000);  // main > made
    evaluated(1000);  // main > evaluated
    await wait_for(1000);  // main > wait_for
  }  // main
}

main();
