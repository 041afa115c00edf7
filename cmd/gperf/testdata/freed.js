// Functions that are made, run and freed: keep_N runs made_N at line N % 2 + 1 of made_N.js.

const vm = require('vm');

globalThis.spin = n => {
    let t = 0;
    for (let i = 0; i < n; i++) t = (t + i * i) % 1000003;
    return t;
};

const keep = [];
globalThis.count = 0;
for (let i = 0; i < 20; i++) {
    keep.push(eval(`(function keep_${i}(n) {
        const source = '\\n'.repeat(${i % 2}) + '(function made_${i}(n) { return spin(n) + ' + count++ + '; })';
        const made = vm.runInThisContext(source, {filename: 'made_${i}.js'});
        return made(n) + 1;
    })`));
}

const cpu = () => process.cpuUsage().user / 1e6;
const stop = cpu() + Number(process.argv[2]);
for (let i = 0; cpu() < stop; i++) keep[i % 20](500000);
