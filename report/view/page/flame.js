// Flame graphs.

const rowHeight = 20;

// FlameChart draws boxes: {x, w, depth, fn, total, self, base, off, node, thread}, whose x and w are in the unit of
// width. Of two charts, one may grow up (callers).
class FlameChart {
	// act has the functions of the page: open(box), zoom(box), focus(box), hide(box), leave().
	constructor(label, act) {
		this.act = act;
		this.boxes = [];
		this.rows = [];
		this.selected = null;
		this.canvas = el("canvas", {
			"tabindex": 0,
			"role": "application",
			"aria-label":
				label + ": arrow keys select a frame, Enter zooms, f focuses, x hides, o opens, Escape zooms out",
			"aria-roledescription": "flame graph",
		});
		this.details = el("div", {class: "details"});
		this.element = el("div", {class: "flame"}, el("div", {class: "flame-scroll"}, this.canvas), this.details);
		this.listen();
	}

	listen() {
		const c = this.canvas;
		c.addEventListener("pointermove", e => e.pointerType === "mouse" && this.hover(this.at(e), e));
		c.addEventListener("pointerleave", () => {
			this.hovered = null;
			hideTip();
			this.draw();
		});
		c.addEventListener("click", e => this.click(e));
		c.addEventListener("keydown", e => this.key(e));
		c.addEventListener("focus", () => {
			if (!this.selected && this.boxes.length) this.select(this.boxes[0]);
		});
	}

	// show draws new boxes. all is the sum of which shares are taken, unit that of sums.
	show(boxes, {width, all, unit, up, colours, matches, notice}) {
		Object.assign(this, {boxes, width, all, unit, up, colours, matches});
		this.rows = [];
		for (const box of boxes) (this.rows[box.depth] ||= []).push(box);
		for (const row of this.rows) row?.sort((a, b) => a.x - b.x);
		const old = this.selected;
		this.selected =
			(old && boxes.find(b => b.fn === old.fn && b.node === old.node && b.depth === old.depth)) || null;
		this.notice = notice;
		this.resize();
		this.showDetails();
		// The nearest callers are at the bottom.
		if (up && !this.selected) this.canvas.parentElement.scrollTop = this.canvas.parentElement.scrollHeight;
	}

	resize() {
		const width = this.element.clientWidth || 600,
			height = Math.max(1, this.rows.length) * rowHeight;
		this.pixels = width;
		this.context = fitCanvas(this.canvas, width, height);
		this.draw();
	}

	y(depth) {
		return (this.up ? this.rows.length - 1 - depth : depth) * rowHeight;
	}

	draw() {
		const c = this.context;
		if (!c) return;
		const scale = this.pixels / this.width,
			height = this.rows.length * rowHeight;
		c.clearRect(0, 0, this.pixels, height);
		c.font = "12px " + fontFamily;
		c.textBaseline = "middle";
		const dim = colour("text-dim"),
			text = colour("frame-text"),
			edge = colour("accent"),
			match = colour("match");
		for (const box of this.boxes) {
			const x = box.x * scale,
				y = this.y(box.depth),
				w = Math.max(0.5, box.w * scale - 0.6);
			const found = this.matches?.[box.fn];
			c.globalAlpha = this.matches && !found ? 0.45 : 1;
			c.fillStyle = found ? match : this.colours(box);
			c.fillRect(x, y + 0.5, w, rowHeight - 1);
			if (w > 24) this.label(c, box, x + 4, y + rowHeight / 2, w - 10, found ? "#111" : text);
		}
		c.globalAlpha = 1;
		for (const box of [this.hovered, this.selected]) {
			if (!box) continue;
			c.strokeStyle = box === this.selected ? edge : dim;
			c.lineWidth = 2;
			c.strokeRect(box.x * scale + 1, this.y(box.depth) + 1, Math.max(1, box.w * scale - 2), rowHeight - 2);
		}
	}

	label(c, box, x, y, w, text) {
		const {base, scope} = (box.parts ||= nameParts(this.nameOf(box)));
		const fit = Math.floor(w / 6.2);
		c.fillStyle = text;
		const shown = base.length <= fit + 2 ? base : base.slice(0, Math.max(1, fit - 1)) + "…";
		const used = c.measureText(shown).width;
		if (used > w) {
			const less = shown.slice(0, Math.max(0, Math.floor((shown.length * w) / used) - 1));
			if (less) c.fillText(less + "…", x, y);
			return;
		}
		c.fillText(shown, x, y);
		const left = w - used - 6;
		if (scope && left > 30) {
			c.globalAlpha *= 0.72;
			const wide = c.measureText(scope).width,
				part = scope.slice(0, Math.max(0, Math.floor((scope.length * left) / wide) - 1)) + "…";
			c.fillText(wide > left ? part : scope, x + used + 6, y);
			c.globalAlpha = this.matches && !this.matches[box.fn] ? 0.45 : 1;
		}
	}

	nameOf(box) {
		return box.label || page.table.functions.name[box.fn];
	}

	at(e) {
		const r = this.canvas.getBoundingClientRect();
		const row = Math.floor((e.clientY - r.top) / rowHeight),
			depth = this.up ? this.rows.length - 1 - row : row;
		const x = ((e.clientX - r.left) / this.pixels) * this.width,
			least = (2 * this.width) / this.pixels;
		return this.rows[depth]?.find(b => x >= b.x && x < b.x + Math.max(b.w, least)) || null;
	}

	hover(box, e) {
		if (box !== this.hovered) {
			this.hovered = box;
			this.draw();
		}
		this.canvas.style.cursor = box ? "pointer" : "";
		if (box) showTip(e.clientX, e.clientY, ...this.describe(box));
		else hideTip();
	}

	// A tap of a finger shows the tip; the second one zooms.
	click(e) {
		const box = this.at(e);
		if (!box) return;
		const touch = e.pointerType === "touch" || e.pointerType === "pen";
		const again = box === this.selected;
		this.select(box);
		if (touch && !again) {
			showTip(e.clientX, e.clientY, ...this.describe(box));
			return;
		}
		hideTip();
		this.act.zoom(box);
	}

	select(box) {
		this.selected = box;
		this.draw();
		this.showDetails();
		if (!box) return;
		say(this.nameOf(box) + ", " + formatShare(box.total, this.all));
		this.canvas.parentElement.scrollTop = Math.min(this.canvas.parentElement.scrollTop, this.y(box.depth));
		const bottom = this.y(box.depth) + rowHeight - this.canvas.parentElement.clientHeight;
		if (this.canvas.parentElement.scrollTop < bottom) this.canvas.parentElement.scrollTop = bottom;
	}

	// describe returns the content of a tip.
	describe(box) {
		const lines = [el("div", {class: "tip-name"}, this.nameOf(box))];
		if (box.fn >= 0) {
			lines.push(el("div", {class: "tip-dso"}, page.table.dsos[page.table.functions.dso[box.fn]]));
		}
		lines.push(
			el(
				"div",
				{},
				el("b", {}, formatShare(box.total, this.all)),
				" " + formatWeight(box.total, this.unit),
				box.self !== undefined && box.self > 0 ? ", itself " + formatShare(box.self, this.all) : "",
			),
		);
		if (box.off) lines.push(el("div", {}, "waiting " + formatShare(box.off, box.total) + " of this time"));
		if (box.base !== undefined && page.table.hasBaseline) {
			lines.push(
				el(
					"div",
					{},
					"before " +
						formatShare(box.base, this.all) +
						", change " +
						changeText(box.total - box.base, this.all) +
						noiseText(box),
				),
			);
		}
		return lines;
	}

	showDetails() {
		const box = this.selected;
		if (!box || (box.fn < 0 && !box.label)) {
			fill(this.details, el("span", {class: "hint"}, this.notice || ""));
			return;
		}
		const buttons = [el("button", {onclick: () => this.act.zoom(box)}, "Zoom")];
		if (box.fn >= 0) {
			buttons.push(
				el("button", {onclick: () => this.act.open(box)}, "Open"),
				el("button", {onclick: () => this.act.focus(box)}, "Focus"),
				el("button", {onclick: () => this.act.hide(box)}, "Hide"),
				el("button", {onclick: () => navigator.clipboard?.writeText(this.nameOf(box))}, "Copy name"),
			);
		}
		fill(
			this.details,
			nameElement(this.nameOf(box)),
			el("span", {class: "amount"}, formatShare(box.total, this.all) + ", " + formatWeight(box.total, this.unit)),
			el("span", {class: "buttons"}, buttons),
		);
	}

	key(e) {
		if (e.ctrlKey || e.altKey || e.metaKey) return;
		const box = this.selected || this.boxes[0];
		if (!box) return;
		const moves = {ArrowUp: this.up ? 1 : -1, ArrowDown: this.up ? -1 : 1};
		let next = null;
		switch (e.key) {
			case "ArrowUp":
			case "ArrowDown":
				next = this.beside(box, moves[e.key]);
				break;
			case "ArrowLeft":
			case "ArrowRight": {
				const row = this.rows[box.depth];
				next = row[row.indexOf(box) + (e.key === "ArrowLeft" ? -1 : 1)];
				break;
			}
			case "Home":
				next = this.boxes[0];
				break;
			case "Enter":
				this.act.zoom(box);
				break;
			case "Escape":
			case "Backspace":
				this.act.leave();
				break;
			case "n":
			case "N":
				next = this.match(e.key === "n" ? 1 : -1);
				break;
			case "o":
				this.act.open(box);
				break;
			case "f":
				this.act.focus(box);
				break;
			case "x":
				this.act.hide(box);
				break;
			default:
				return;
		}
		e.preventDefault();
		e.stopPropagation();
		if (next) this.select(next);
	}

	// match returns the box of the next match of the search (by 1) or of the previous one (by -1).
	match(by) {
		const found = this.boxes.filter(b => this.matches?.[b.fn]).sort((a, b) => a.x - b.x || a.depth - b.depth),
			at = found.indexOf(this.selected);
		if (at >= 0) return found[(at + by + found.length) % found.length];
		return found.at(by > 0 ? 0 : -1);
	}

	// beside returns the caller (by -1) or the largest callee of a box.
	beside(box, by) {
		const row = this.rows[box.depth + by] || [];
		if (by < 0) return row.find(b => b.x <= box.x + 1e-9 && b.x + b.w >= box.x + box.w - 1e-6);
		return row.filter(b => b.x >= box.x - 1e-9 && b.x + b.w <= box.x + box.w + 1e-6).sort((a, b) => b.w - a.w)[0];
	}
}

// noiseText says how large a change by chance may be.
function noiseText(box) {
	if (box.count === undefined) return "";
	const {all, scale} = page.counted,
		by = noise(box, {...all, base: all.base * scale});
	return " ± " + formatShare(by, all.self) + (Math.abs(box.total - box.base) <= by ? ", noise" : "");
}

const fontFamily = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

// Layouts. least is the width of the narrowest box.

// layTree lays a tree out, from a node up: its callers have the whole width. Each caller has its callees in the order
// of their size, or of their names.
function layTree(tree, counted, zoom, order, least) {
	const names = page.table.functions.name,
		boxes = [],
		wide = widths(counted),
		width = wide[zoom];
	if (!width) return {boxes, width: 1};
	const box = (node, x, w) => {
		boxes.push({
			x,
			w,
			depth: tree.depth[node],
			fn: tree.fn[node],
			...partOf(counted, node),
			self: counted.self[node],
			off: counted.off ? counted.offTotal[node] : 0,
			label: node ? "" : "all",
		});
	};
	for (let at = tree.parent[zoom]; at >= 0; at = tree.parent[at]) box(at, 0, width);
	boxes.reverse();
	const stack = [[zoom, 0]];
	while (stack.length) {
		const [node, x] = stack.pop();
		box(node, x, wide[node]);
		const callees = [];
		for (let c = tree.childStart[node]; c < tree.childStart[node + 1]; c++) {
			if (wide[tree.children[c]] >= least * width) callees.push(tree.children[c]);
		}
		if (order === "name") callees.sort((a, b) => (names[tree.fn[a]] < names[tree.fn[b]] ? -1 : 1));
		else callees.sort((a, b) => wide[b] - wide[a] || a - b);
		let at = x;
		for (const callee of callees) {
			stack.push([callee, at]);
			at += wide[callee];
		}
	}
	return {boxes, width};
}

// noise is half of the 95 % confidence interval of a box's change, from the numbers of samples: their variance is that
// of Poisson's distribution. One more sample is assumed, because no samples do not mean that there is no variance.
function noise(box, all) {
	const variance = (sum, count, of, ofCount) => {
		const one = count ? sum / count : of / (ofCount || 1);
		return one * one * (count + 1) * (1 - sum / (of || 1));
	};
	const before = variance(box.base, box.baseCount, all.base, all.baseCount),
		now = variance(box.total, box.count, all.self, all.count);
	return 1e-9 * all.self + 1.96 * Math.sqrt(Math.max(0, before + now)); // the scaled baseline is not exact
}

// widths returns the column that makes the widths of boxes.
function widths(counted) {
	return counted.base && page.state.before ? counted.baseTotal : counted.total;
}

// layEntries lays the callers or callees of a function out.
function layEntries(tree, counted, root, least) {
	const boxes = [],
		stack = [[root, 0, 0]],
		width = root.total || 1;
	while (stack.length) {
		const [entry, x, depth] = stack.pop();
		boxes.push({
			x,
			w: entry.total,
			depth,
			fn: entry.fn,
			node: -1,
			total: entry.total,
			base: entry.base,
			off: 0,
			count: entry.count,
			baseCount: entry.baseCount,
			self: entry.inverted ? undefined : entry.self,
		});
		let at = x;
		for (const next of nextEntries(tree, counted, entry)) {
			if (next.total < least * width) break;
			stack.push([next, at, depth + 1]);
			at += next.total;
		}
	}
	return {boxes, width};
}

// layTimes lays the samples out in the order of time, thread by thread, the busiest first. Successive samples share
// the boxes of the frames that their stacks have in common. zoom is the shown part: from and to, of 1. rough takes
// some of many samples.
function layTimes(table, tree, masks, range, zoom, least, rough) {
	const {order, totals, all} = timeOrder(table, masks, range, rough);
	const from = zoom[0] * all,
		to = zoom[1] * all,
		width = to - from || 1,
		boxes = [],
		open = [];
	const close = (depth, x) => {
		while (open.length > depth) {
			const b = open.pop(),
				start = Math.max(b.x, from),
				end = Math.min(x, to);
			if (end - start >= least * width) {
				boxes.push({...b, x: start - from, w: end - start, total: x - b.x, start: b.x / all, end: x / all});
			}
		}
	};
	let x = 0,
		thread = -1,
		last = 0;
	const path = [];
	for (const i of order) {
		const w = amountOf(table, masks, i),
			node = tree.of[table.node[i]];
		if (x + w < from || x > to) {
			if (table.thread[i] !== thread || last !== node) (close(0, x), (thread = -1), (last = 0));
			x += w;
			continue;
		}
		if (table.thread[i] !== thread) {
			close(0, x);
			thread = table.thread[i];
			last = 0;
			open.push({x, depth: 0, fn: -1, node: -2 - thread, label: threadName(table, thread)});
		}
		if (node !== last) {
			let a = node,
				b = last;
			path.length = 0;
			while (a !== b) {
				if (tree.depth[a] >= tree.depth[b]) (path.push(a), (a = tree.parent[a]));
				else b = tree.parent[b];
			}
			close(tree.depth[a] + 1, x);
			for (let p = path.length - 1; p >= 0; p--)
				open.push({x, depth: tree.depth[path[p]], fn: tree.fn[path[p]], node: path[p]});
			last = node;
		}
		x += w;
	}
	close(0, x);
	boxes.sort((a, b) => a.depth - b.depth || a.x - b.x);
	return {boxes, width, threads: totals.length};
}

// timeOrder returns the selected samples, those of the busiest thread first, with the threads and the sum of all. rough
// takes every nth sample, so that there are at most 40,000.
function timeOrder(table, masks, range, rough) {
	const passed = passes(table, masks),
		weights = new Float64Array(table.threads.tid.length),
		counts = new Int32Array(weights.length);
	const list = [...ranges(table, range)],
		most = list.reduce((n, [from, to]) => n + to - from, 0);
	const step = rough ? Math.ceil(most / 40000) : 1,
		chosen = new Int32Array(Math.ceil(most / step) + list.length);
	let n = 0,
		all = 0;
	for (const [from, to] of list) {
		for (let i = from; i < to; i += step) {
			const t = table.thread[i];
			if (!passed(i) || (table.hasBaseline && table.isBaseline[t])) continue;
			const w = amountOf(table, masks, i);
			weights[t] += w;
			all += w;
			counts[t]++;
			chosen[n++] = i;
		}
	}
	const totals = [...weights.keys()].filter(t => counts[t]).sort((a, b) => weights[b] - weights[a]);
	const next = new Int32Array(weights.length),
		order = new Int32Array(n);
	let at = 0;
	for (const t of totals) ((next[t] = at), (at += counts[t]));
	for (let k = 0; k < n; k++) order[next[table.thread[chosen[k]]]++] = chosen[k];
	return {order, totals, all};
}

// Colours of boxes.

function frameColours(kind, counted) {
	const table = page.table,
		dark = isDark(),
		light = dark ? 31 : 80,
		strong = dark ? 38 : 68;
	const cache = new Map();
	const byFile = box => {
		if (box.fn < 0) return dark ? "hsl(220 12% 26%)" : "hsl(220 16% 88%)";
		let c = cache.get(box.fn);
		if (!c) {
			const flags = table.functions.flags[box.fn],
				dso = table.functions.dso[box.fn],
				jitter = (hueOf(table.functions.name[box.fn]) % 5) - 2;
			if (flags & label) c = dark ? "hsl(220 12% 26%)" : "hsl(220 16% 88%)";
			else if (flags & 2) c = `hsl(220 8% ${light - 2 + jitter}%)`;
			else if (flags & 1) c = `hsl(${22 + 2 * jitter} ${dark ? 55 : 82}% ${light + jitter - 2}%)`;
			else if (kind === "dso") c = `hsl(${hueOf(table.dsos[dso])} ${dark ? 38 : 58}% ${light + jitter}%)`;
			else {
				c = `hsl(${(flags & 8 ? 120 : 205) + 4 * jitter} ${dark ? 42 : 62}% ${light + jitter}%)`;
			}
			cache.set(box.fn, c);
		}
		return c;
	};
	if (kind === "change" && table.hasBaseline) {
		const all = {...counted.all, base: counted.all.base * counted.scale};
		return box => {
			if (box.base === undefined) return byFile(box);
			const change = (box.total - box.base) / Math.max(box.total, box.base, 1),
				size = Math.abs(box.total - box.base);
			if (size <= noise(box, all)) return `hsl(6 6% ${dark ? 28 : 91}%)`;
			const s = Math.sqrt(Math.min(1, Math.abs(change))) * Math.min(1, 0.25 + (12 * size) / (all.self || 1));
			const saturation = 85 * s;
			return `hsl(${change > 0 ? 6 : 212} ${saturation.toFixed(0)}% ${dark ? 28 + 12 * s : 91 - 26 * s}%)`;
		};
	}
	if (counted?.off) {
		return box => {
			const share = box.total ? (box.off || 0) / box.total : 0;
			return share > 0.5 ? `hsl(232 ${dark ? 36 : 60}% ${dark ? 36 : 84}%)` : byFile(box, strong);
		};
	}
	return byFile;
}
