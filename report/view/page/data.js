// The block of samples: see report/view/block.go for its form.

// fetchBlock returns the bytes of the block: those in the page, or the server's.
async function fetchBlock() {
	const inPage = document.getElementById("block");
	if (inPage.textContent) {
		const packed = bytesOf(inPage.textContent);
		inPage.textContent = "";
		return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
	}
	const answer = await fetch("data");
	if (!answer.ok) throw new Error("the server answers: " + (await answer.text()));
	return answer.arrayBuffer();
}

const isServed = document.getElementById("block").textContent === "";

function bytesOf(base64) {
	if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
	const text = atob(base64),
		bytes = new Uint8Array(text.length);
	for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
	return bytes;
}

// decodeBlock returns the table: the members of the header, and the columns as typed arrays.
function decodeBlock(buffer) {
	const view = new DataView(buffer),
		size = view.getUint32(4, true);
	const table = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
	for (const c of table.columns) table[c.name] = decodeColumn(buffer, 8 + size + c.offset, c, table);
	for (const list of ["recordings", "events", "keys", "values", "groups", "dsos"]) table[list] ||= [];
	for (const list of ["recording", "pid", "tid", "comm", "process"]) table.threads[list] ||= [];
	for (const list of ["name", "dso", "flags"]) table.functions[list] ||= [];
	table.length = table.time.length;
	addTimes(table);
	table.isBaseline = Uint8Array.from(table.threads.recording, r => (table.recordings[r].baseline ? 1 : 0));
	table.hasBaseline = table.isBaseline.includes(1);
	table.cpus = 0;
	for (let i = 0; i < table.length; i++) if (table.cpu[i] >= table.cpus) table.cpus = table.cpu[i] + 1;
	table.idleEvents = idleEvents(table);
	table.hasIdle = table.idleEvents.includes(1);
	table.timed = !table.samples; // else the entries are sums of samples, and their times are not known
	table.allSamples = table.timed ? table.length : table.samples.reduce((sum, n) => sum + n, 0);
	return table;
}

// idleEvents has a 1 for each event of which some samples are idle, and some are not.
function idleEvents(table) {
	const seen = new Uint8Array(table.events.length);
	for (let i = 0; i < table.length; i++) seen[table.event[i]] |= table.flags[i] & idle ? 2 : 1;
	return seen.map(s => (s === 3 ? 1 : 0));
}

// idle is the flag of samples of CPUs and threads without work.
const idle = 1;

function decodeColumn(buffer, offset, c, table) {
	switch (c.type) {
		case "u8":
			return new Uint8Array(buffer, offset, c.length).slice();
		case "i16":
			return new Int16Array(buffer, offset, c.length).slice();
		case "i32":
			return new Int32Array(buffer, offset, c.length).slice();
		case "varint":
			return varints(new Uint8Array(buffer, offset, c.bytes), c.length);
	}
	return unzigzag(varints(new Uint8Array(buffer, offset, c.bytes), c.length));
}

// varints decodes numbers in LEB128.
function varints(bytes, length) {
	const list = new Float64Array(length);
	for (let i = 0, at = 0; i < length; i++) {
		let b = bytes[at++],
			n = b & 127,
			scale = 128;
		while (b >= 128) {
			b = bytes[at++];
			n += (b & 127) * scale;
			scale *= 128;
		}
		list[i] = n;
	}
	return list;
}

function unzigzag(list) {
	for (let i = 0; i < list.length; i++) list[i] = list[i] % 2 ? -(list[i] + 1) / 2 : list[i] / 2;
	return list;
}

// addTimes makes times of their differences.
function addTimes(table) {
	table.first = 0;
	table.last = 1;
	for (const r of table.recordings) {
		let at = r.shift;
		for (let i = r.start; i < r.start + r.samples; i++) at = table.time[i] += at;
		if (r.samples) {
			table.first = Math.min(table.first, r.shift);
			table.last = Math.max(table.last, r.shift + r.lasts);
		}
	}
}

// makeTree merges the nodes of equal functions: the columns parent, fn (function), depth and outer (none of the callers
// is the same function) by tree node; of is the tree node by table node. Callers have lower numbers than callees. With
// merge, a recursive call is the same tree node as the call that it repeats.
function makeTree(table, merge) {
	const n = table.nodeParent.length,
		functions = table.functions.name.length,
		links = childLinks(table);
	const of = new Int32Array(n),
		parent = new Int32Array(n),
		fn = new Int32Array(n).fill(-1),
		depth = new Int32Array(n),
		outer = new Uint8Array(n).fill(1);
	// The table nodes of a tree node are a list: head is its first one, more the next one of each.
	const head = new Int32Array(n),
		more = new Int32Array(n).fill(-1),
		tail = new Int32Array(n);
	const seenBy = new Int32Array(functions).fill(-1),
		seenAs = new Int32Array(functions);
	parent[0] = -1;
	let length = 1;
	for (let up = 0; up < length; up++) {
		for (let member = head[up]; member >= 0; member = more[member]) {
			for (let child = links.first[member]; child >= 0; child = links.next[child]) {
				const f = table.frameFunction[table.nodeFrame[child]];
				let at = seenAs[f];
				if (seenBy[f] !== up) {
					let same = up;
					while (same > 0 && fn[same] !== f) same = parent[same];
					if (merge && same > 0) {
						at = same;
					} else {
						at = length++;
						parent[at] = up;
						fn[at] = f;
						depth[at] = depth[up] + 1;
						outer[at] = same > 0 ? 0 : 1;
						head[at] = tail[at] = -1;
					}
					seenBy[f] = up;
					seenAs[f] = at;
				}
				of[child] = at;
				if (head[at] < 0) head[at] = child;
				else more[tail[at]] = child;
				tail[at] = child;
			}
		}
	}
	const tree = {
		of,
		parent: parent.slice(0, length),
		fn: fn.slice(0, length),
		depth: depth.slice(0, length),
		outer: outer.slice(0, length),
		length,
	};
	addChildren(tree);
	return tree;
}

// childLinks returns the first child of each table node, and the next one of the same parent, -1 for none.
function childLinks(table) {
	const n = table.nodeParent.length,
		first = new Int32Array(n).fill(-1),
		next = new Int32Array(n).fill(-1);
	for (let i = n - 1; i > 0; i--) {
		next[i] = first[table.nodeParent[i]];
		first[table.nodeParent[i]] = i;
	}
	return {first, next};
}

// addChildren adds the columns childStart and children: those of node i are children[childStart[i]] to
// children[childStart[i+1]-1].
function addChildren(tree) {
	const start = new Int32Array(tree.length + 1);
	for (let i = 1; i < tree.length; i++) start[tree.parent[i] + 1]++;
	for (let i = 0; i < tree.length; i++) start[i + 1] += start[i];
	const next = start.slice(),
		children = new Int32Array(tree.length);
	for (let i = 1; i < tree.length; i++) children[next[tree.parent[i]]++] = i;
	tree.childStart = start;
	tree.children = children;
}
