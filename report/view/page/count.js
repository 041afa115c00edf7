// Counting the samples that the filters select.

// makeMasks returns what the filters select, in a form that a loop over all samples reads fast. They hold everything
// but the time.
function makeMasks(table, state) {
	const threads = new Uint8Array(table.threads.tid.length).fill(1);
	if (state.processes.length || state.threads.length) {
		const wanted = new Set(state.processes),
			own = new Set(state.threads);
		for (let i = 0; i < threads.length; i++) {
			threads[i] = wanted.has(processKey(table, i)) || own.has(threadKey(table, i)) ? 1 : 0;
		}
	}
	const cpus = new Uint8Array(table.cpus + 1).fill(state.cpus.length ? 0 : 1);
	for (const cpu of state.cpus) if (cpu < table.cpus) cpus[cpu + 1] = 1;
	const events = Uint8Array.from(table.events, (e, i) => (isSelected(state, table, i) ? 1 : 0));
	return {
		threads,
		cpus,
		events,
		nodes: nodeMask(table, state),
		groups: groupMask(table, state),
		hidden: (hidesIdle(table, events, state) ? idle : 0) | (state.filter ? unmatched : 0),
		samples: state.metric === "samples",
	};
}

// hidesIdle reports whether idle samples are hidden: not if the selected events have no others.
function hidesIdle(table, events, state) {
	return !state.showIdle && events.some((selected, i) => selected && table.idleEvents[i]);
}

// unmatched is the flag of samples that the filter's expression does not select.
const unmatched = 128;

// match sets the flag of the samples that an expression does not select. The server knows: it reads the recordings
// again. The result says what is wrong, "" if nothing is.
async function match(table, filter) {
	if (table.matched === filter) return "";
	if (!isServed) return "This page is a file: gperf view --filter and --export choose its samples.";
	let answer, bits;
	try {
		answer = await fetch("match?" + new URLSearchParams({filter}));
		if (!answer.ok) return answer.text();
		bits = new Uint8Array(await answer.arrayBuffer());
	} catch {
		return "gperf view has ended: it can choose no samples by an expression any more.";
	}
	const known = Number(answer.headers.get("X-Samples"));
	if (known < table.length) notice(`The filter chooses among the first ${known} samples: the recording has grown.`);
	for (let i = 0; i < table.length; i++) {
		table.flags[i] = (table.flags[i] & ~unmatched) | ((bits[i >> 3] >> (i & 7)) & 1 ? 0 : unmatched);
	}
	table.matched = filter;
	return "";
}

// Names of processes and threads in filters do not change when a live recording grows.
function processKey(table, thread) {
	const t = table.threads,
		r = t.recording[thread];
	return (t.pid[thread] < 0 ? t.process[thread] : t.pid[thread]) + (r ? "@" + r : "");
}
function threadKey(table, thread) {
	const t = table.threads,
		r = t.recording[thread];
	return t.pid[thread] + "/" + t.tid[thread] + (r ? "@" + r : "");
}

// isSelected reports whether an event is selected. "cpu+wait" selects all that measure the time of threads.
function isSelected(state, table, event) {
	if (state.event === bothTimes) return isThreadTime(table.events[event]);
	return table.events[event].name === state.event;
}
const bothTimes = "on-CPU + off-CPU";
function isThreadTime(e) {
	return e.kind === "wait" || (e.kind === "cpu" && e.unit === "nanoseconds");
}

// nodeMask returns the nodes that focus and hide select, null for all.
function nodeMask(table, state) {
	if (!state.focus.length && !state.hide.length) return null;
	const names = table.functions.name,
		n = table.nodeParent.length;
	const marks = patterns => patterns.map(matcher).map(match => Uint8Array.from(names, name => (match(name) ? 1 : 0)));
	const focus = marks(state.focus),
		hide = marks(state.hide);
	const mask = new Uint8Array(n).fill(1);
	const select = (list, selected) => {
		const has = new Uint8Array(n);
		for (let i = 1; i < n; i++) has[i] = has[table.nodeParent[i]] | list[table.frameFunction[table.nodeFrame[i]]];
		for (let i = 0; i < n; i++) mask[i] &= has[i] === selected ? 1 : 0;
	};
	for (const list of focus) select(list, 1);
	for (const list of hide) select(list, 0);
	return mask;
}

// groupMask returns the groups of fields that are selected, by number + 1, null for all. Values of one field are
// alternatives.
function groupMask(table, state) {
	if (!state.fields.length) return null;
	const byKey = new Map();
	for (const {key, value} of state.fields) byKey.set(key, (byKey.get(key) || new Set()).add(value));
	const mask = new Uint8Array(table.groups.length + 1);
	table.groups.forEach((pairs, g) => {
		const left = new Map(byKey);
		for (let i = 0; i < pairs.length; i += 2) {
			const key = table.keys[pairs[i]];
			if (byKey.get(key)?.has(table.values[pairs[i + 1]])) left.delete(key);
		}
		mask[g + 1] = left.size === 0 ? 1 : 0;
	});
	return mask;
}

// ranges yields the samples [from, to) of each recording in a time range, null for all.
function* ranges(table, range) {
	for (const r of table.recordings) {
		const end = r.start + r.samples;
		if (!range) yield [r.start, end];
		else yield [lowerBound(table.time, r.start, end, range[0]), lowerBound(table.time, r.start, end, range[1])];
	}
}

function lowerBound(list, from, to, value) {
	while (from < to) {
		const middle = (from + to) >> 1;
		if (list[middle] < value) from = middle + 1;
		else to = middle;
	}
	return from;
}

// Counter sums the selected samples up by the nodes of a tree: the columns self and total; count, in samples; off, of
// waits; base and baseCount, of a baseline. all has the sums of all. The columns stay the same arrays. If only the time
// changes, the counter adds and subtracts the samples in between.
class Counter {
	constructor(table, tree) {
		this.table = table;
		this.tree = tree;
		this.node = new Int32Array(table.length); // tree node of each sample
		for (let i = 0; i < table.length; i++) this.node[i] = tree.of[table.node[i]];
		this.self = new Float64Array(tree.length);
		this.total = new Float64Array(tree.length);
		this.count = new Int32Array(tree.length);
		this.waits = Uint8Array.from(table.events, e => (e.kind === "wait" ? 1 : 0));
		this.off = this.waits.includes(1) ? new Float64Array(tree.length) : null;
		this.offTotal = this.off && new Float64Array(tree.length);
		this.base = table.hasBaseline ? new Float64Array(tree.length) : null;
		this.baseTotal = this.base && new Float64Array(tree.length);
		this.baseCount = this.base && new Float64Array(tree.length);
	}

	// run counts the samples that masks select in a time range, null for all.
	run(masks, range) {
		const now = [...ranges(this.table, range)];
		if (this.masks !== masks) {
			for (const list of [this.self, this.count, this.off, this.base, this.baseCount]) list?.fill(0);
			this.masks = masks;
			this.idle = 0; // what is hidden as idle
			for (const [from, to] of now) this.add(from, to, 1);
		} else {
			now.forEach(([from, to], r) => this.move(this.ranges[r] || [from, from], from, to));
		}
		this.ranges = now;
		this.sum(this.self, this.total);
		if (this.off) this.sum(this.off, this.offTotal);
		if (this.base) this.sum(this.base, this.baseTotal);
		this.countTotals = this.baseCountTotals = null;
		this.nodeSums = null;
		let count = 0;
		for (let i = 0; i < this.count.length; i++) count += this.count[i];
		this.all = {self: this.total[0], count, base: 0, baseCount: 0};
		if (this.base) Object.assign(this.all, {base: this.baseTotal[0], baseCount: this.baseCountTotal[0]});
		this.scale = this.all.base ? this.all.self / this.all.base : 1;
	}

	// move replaces the samples of an old range with those of a new one.
	move([oldFrom, oldTo], from, to) {
		if (from >= oldTo || to <= oldFrom) {
			this.add(oldFrom, oldTo, -1);
			this.add(from, to, 1);
			return;
		}
		if (from < oldFrom) this.add(from, oldFrom, 1);
		else this.add(oldFrom, from, -1);
		if (to > oldTo) this.add(oldTo, to, 1);
		else this.add(to, oldTo, -1);
	}

	// add adds the samples from one to another, sign times.
	add(first, end, sign) {
		const {thread, cpu, event, flags, weight, group, isBaseline, node: tableNode, samples: sums} = this.table;
		const {threads, cpus, events, nodes, groups, hidden, samples} = this.masks,
			{self, count, off, base, baseCount, waits, node} = this;
		for (let i = first; i < end; i++) {
			if (!events[event[i]] || !threads[thread[i]] || !cpus[cpu[i] + 1]) continue;
			if (flags[i] & hidden & unmatched) continue;
			if ((nodes && !nodes[tableNode[i]]) || (groups && !groups[group[i] + 1])) continue;
			const at = node[i],
				n = sums ? sign * sums[i] : sign,
				w = samples ? n : sign * weight[i];
			if (flags[i] & hidden) {
				if (!base || !isBaseline[thread[i]]) this.idle += w;
				continue;
			}
			if (base && isBaseline[thread[i]]) {
				base[at] += w;
				baseCount[at] += n;
				continue;
			}
			self[at] += w;
			count[at] += n;
			if (off && waits[event[i]]) off[at] += w;
		}
	}

	// sum adds the sums of callees to their callers.
	sum(own, total) {
		const {parent} = this.tree;
		total.set(own);
		for (let i = total.length - 1; i > 0; i--) if (total[i]) total[parent[i]] += total[i];
	}

	// countTotal returns the column of samples with those of callees.
	get countTotal() {
		if (!this.countTotals) this.sum(this.count, (this.countTotals = new Int32Array(this.count.length)));
		return this.countTotals;
	}

	// baseCountTotal is countTotal of the baseline.
	get baseCountTotal() {
		if (!this.baseCountTotals) this.sum(this.baseCount, (this.baseCountTotals = new Float64Array(this.tree.length)));
		return this.baseCountTotals;
	}

	// byTableNode returns self and total by table node, whose frames have lines.
	byTableNode() {
		if (this.nodeSums) return this.nodeSums;
		const {table, masks} = this,
			n = table.nodeParent.length,
			self = new Float64Array(n),
			passed = passes(table, masks);
		for (const [from, to] of this.ranges) {
			for (let i = from; i < to; i++) {
				if (passed(i) && !(this.base && table.isBaseline[table.thread[i]]))
					self[table.node[i]] += amountOf(table, masks, i);
			}
		}
		const total = self.slice();
		for (let i = n - 1; i > 0; i--) if (total[i]) total[table.nodeParent[i]] += total[i];
		return (this.nodeSums = {self, total});
	}
}

// amountOf returns what an entry of the table counts.
function amountOf(table, masks, i) {
	return masks.samples ? samplesOf(table, i) : table.weight[i];
}

// samplesOf returns the number of samples of an entry of the table.
function samplesOf(table, i) {
	return table.samples ? table.samples[i] : 1;
}

// passes returns a function that reports whether the masks select a sample.
function passes(table, masks) {
	const {node, thread, cpu, event, flags, group} = table,
		{threads, cpus, events, nodes, groups, hidden} = masks;
	return i =>
		events[event[i]] &&
		threads[thread[i]] &&
		cpus[cpu[i] + 1] &&
		!(flags[i] & hidden) &&
		(!nodes || nodes[node[i]]) &&
		(!groups || groups[group[i] + 1]);
}

// label is the flag of functions that are none: the command, and the values of fields by which stacks are divided.
const label = 4;

// byFunction returns the functions with samples: {fn, self, total, count, base, baseTotal, off}. In recursion, a sample
// counts once.
function byFunction(tree, counted) {
	const {fn, outer} = tree,
		{self, total, base, baseTotal, off, offTotal, scale} = counted,
		count = counted.countTotal;
	const rows = [];
	for (let i = 1; i < tree.length; i++) {
		if (!total[i] && !(base && baseTotal[i])) continue;
		const row = (rows[fn[i]] ||= {fn: fn[i], self: 0, total: 0, count: 0, base: 0, baseTotal: 0, off: 0});
		row.self += self[i];
		if (base) row.base += base[i] * scale;
		if (!outer[i]) continue;
		row.total += total[i];
		row.count += count[i];
		if (base) row.baseTotal += baseTotal[i] * scale;
		if (off) row.off += offTotal[i];
	}
	return rows.filter(Boolean);
}

// Entries of call trees: {fn, total, self, base, count, baseCount, parts}. parts lists the tree nodes, with the share of
// each in a tree of callers.

// rootEntry returns the root of all callees, or with inverted of all callers.
function rootEntry(tree, counted, inverted) {
	const entry = {
		fn: -1,
		total: counted.all.self,
		self: 0,
		base: (counted.all.base || 0) * counted.scale,
		inverted,
		parts: [],
	};
	if (!inverted) {
		entry.parts.push({node: 0});
		return entry;
	}
	for (let i = 1; i < tree.length; i++) {
		const own = counted.self[i],
			base = counted.base ? counted.base[i] * counted.scale : 0;
		if (own || base) {
			const {count, baseCount} = counted;
			entry.parts.push({node: i, total: own, base, count: count[i], baseCount: baseCount?.[i] || 0});
		}
	}
	return entry;
}

// functionEntry returns the root of the callers or callees of a function.
function functionEntry(tree, counted, fn, inverted) {
	const entry = newEntry(fn, inverted);
	for (let i = 1; i < tree.length; i++) {
		if (tree.fn[i] === fn && tree.outer[i]) addPart(entry, tree, counted, partOf(counted, i));
	}
	return entry;
}

function newEntry(fn, inverted) {
	return {fn, total: 0, self: 0, base: 0, count: 0, baseCount: 0, inverted, parts: []};
}

// partOf returns the sums of a tree node: with a baseline also the numbers of samples, from which noise is computed.
function partOf(counted, node) {
	const part = {node, total: counted.total[node], base: 0, count: 0, baseCount: 0};
	if (counted.base) {
		part.base = counted.baseTotal[node] * counted.scale;
		part.count = counted.countTotal[node];
		part.baseCount = counted.baseCountTotal[node];
	}
	return part;
}

function addPart(entry, tree, counted, part) {
	if (!part.total && !part.base) return;
	entry.total += part.total;
	entry.base += part.base;
	entry.count += part.count;
	entry.baseCount += part.baseCount;
	if (!entry.inverted) entry.self += counted.self[part.node];
	else if (tree.parent[part.node] === 0) entry.self += part.total;
	entry.parts.push(part);
}

// nextEntries returns the entries of the next level, the largest first.
function nextEntries(tree, counted, entry) {
	const byFn = new Map();
	const add = part => {
		const fn = tree.fn[part.node];
		let next = byFn.get(fn);
		if (!next) byFn.set(fn, (next = newEntry(fn, entry.inverted)));
		addPart(next, tree, counted, part);
	};
	for (const part of entry.parts) {
		if (entry.inverted && entry.fn < 0) add(part);
		else if (entry.inverted && tree.parent[part.node] > 0) add({...part, node: tree.parent[part.node]});
		else if (!entry.inverted) {
			for (let c = tree.childStart[part.node]; c < tree.childStart[part.node + 1]; c++)
				add(partOf(counted, tree.children[c]));
		}
	}
	return [...byFn.values()].filter(e => e.parts.length).sort((a, b) => b.total - a.total || b.base - a.base);
}
