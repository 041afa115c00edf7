// The load of node: compiled JavaScript, garbage, JSON, regular expressions, promises, and an HTTP server with its
// clients. The argument is the number of seconds.
const http = require('http');
const zlib = require('zlib');
const crypto = require('crypto');

const end = Date.now() + 1000 * Number(process.argv[2]);

function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

class Shape { area() { return 0; } }
class Square extends Shape { constructor(a) { super(); this.a = a; } area() { return this.a * this.a; } }
class Circle extends Shape { constructor(r) { super(); this.r = r; } area() { return 3.14 * this.r ** 2; } }

function garbage() {
	const rows = [];
	for (let i = 0; i < 20000; i++) rows.push(i % 2 ? new Square(i) : new Circle(i), { id: i, name: 'row ' + i });
	return rows.filter((r) => r instanceof Shape).map((r) => r.area()).reduce((a, b) => a + b, 0);
}

function json() {
	const rows = Array.from({ length: 2000 }, (_, id) => ({ id, tags: ['a', 'b', String(id)], nested: { x: id / 3 } }));
	return JSON.parse(JSON.stringify(rows)).sort((a, b) => b.nested.x - a.nested.x).length;
}

function regex() {
	const text = 'the quick brown fox jumps over the lazy dog 12345 times; '.repeat(500);
	return text.replace(/(\w+) (\w+)/g, (_, a, b) => b + ' ' + a).split(/\s+/).filter((w) => /^[a-m].*[aeiou]/.test(w)).length;
}

function throwing(n) {
	try {
		if (n === 0) throw new Error('at the bottom');
		return throwing(n - 1);
	} finally {
		garbage.calls = (garbage.calls || 0) + 1;
	}
}

// recompiled makes new functions, so that V8 compiles and drops code all the time.
function recompiled(i) {
	const f = new Function('x', `let s = 0; for (let j = 0; j < 3000; j++) s += (x * j + ${i}) % 7; return s;`);
	let sum = 0;
	for (let j = 0; j < 200; j++) sum += f(j);
	return sum;
}

async function request(port) {
	return new Promise((resolve, reject) => {
		http.get({ port, path: '/work' }, (res) => {
			let body = '';
			res.on('data', (d) => { body += d; });
			res.on('end', () => resolve(body.length));
		}).on('error', reject);
	});
}

const server = http.createServer((req, res) => {
	res.setHeader('Content-Type', 'application/json');
	res.end(JSON.stringify({ url: req.url, sum: fib(15), hash: crypto.createHash('sha256').update(req.url).digest('hex') }));
});

server.listen(0, '127.0.0.1', async () => {
	const port = server.address().port;
	let rounds = 0;
	while (Date.now() < end) {
		fib(24);
		garbage();
		json();
		regex();
		try { throwing(50); } catch (e) { rounds += e.stack.length ? 1 : 0; }
		recompiled(rounds);
		zlib.gzipSync(Buffer.alloc(100000, 'gperf'));
		await Promise.all(Array.from({ length: 20 }, () => request(port)));
		await new Promise((resolve) => zlib.deflate(Buffer.alloc(200000, 'pool'), resolve)); // on a thread of the pool
	}
	server.close();
});
