// Time: the overview at the top, and the timeline of processes, threads and CPUs.

const layers = ["cpu", "wait", "span", "mark", "drop"]; // what rows show, by the kind of events

// bucketSamples returns for each row and layer the weights of the samples by pixel. rowOf returns the row of a sample,
// -1 for none. Spans and waits are spread over the time that they lasted. seen has the layers with samples.
function bucketSamples(table, passed, rowOf, rows, from, to, width) {
	const seen = new Set(),
		data = layers.map(() => null),
		scale = width / (to - from);
	const layerOf = table.events.map(e => layers.indexOf(e.kind));
	const bucketsOf = layer => (data[layer] ||= new Float32Array(rows * width));
	const lasts = table.events.map(e => e.kind === "span" || e.kind === "wait");
	for (const [start, end] of ranges(table, null)) {
		for (let i = start; i < end; i++) {
			const t = table.time[i],
				event = table.event[i],
				layer = layerOf[event];
			if (layer < 0 || t < from || (!lasts[event] && t > to) || !passed(i)) continue;
			const row = rowOf(i);
			if (row < 0) continue;
			const w = table.weight[i];
			if (lasts[event]) {
				const began = t - w;
				if (began > to) continue;
				seen.add(layer);
				spread(
					bucketsOf(layer),
					row * width,
					(Math.max(began, from) - from) * scale,
					(Math.min(t, to) - from) * scale,
					width,
				);
				continue;
			}
			seen.add(layer);
			bucketsOf(layer)[row * width + Math.min(width - 1, ((t - from) * scale) | 0)] += layer === 0 ? w : 1;
		}
	}
	return {data, seen, rows, width};
}

// spread adds 1 per pixel between two places.
function spread(list, at, from, to, width) {
	const first = Math.max(0, from | 0),
		last = Math.min(width - 1, to | 0);
	if (first === last) {
		list[at + first] += Math.max(to - from, 0.02);
		return;
	}
	list[at + first] += first + 1 - from;
	for (let i = first + 1; i < last; i++) list[at + i]++;
	list[at + last] += to - last;
}

// drawRow draws the layers of a row. most is the largest weight of a pixel.
function drawRow(c, buckets, row, y, height, most, left) {
	const {data, width} = buckets,
		colours = layers.map(name => colour("layer-" + name));
	data.forEach((list, layer) => {
		if (!list) return;
		c.fillStyle = colours[layer];
		const base = row * width,
			name = layers[layer];
		for (let x = 0; x < width; x++) {
			const v = list[base + x];
			if (!v) continue;
			if (name === "cpu") {
				const h = Math.max(1, Math.min(1, v / most[layer]) * (height - 2));
				c.fillRect(left + x, y + height - h, 1, h);
			} else if (name === "wait" || name === "span") {
				c.globalAlpha = Math.min(1, 0.25 + 0.75 * Math.min(1, v));
				const h = Math.round(height * (name === "wait" ? 0.2 : 0.26));
				c.fillRect(left + x, name === "wait" ? y + height - h : y + 1, 1, h);
				c.globalAlpha = 1;
			} else {
				const h = Math.max(4, Math.min(1, 0.3 + v / most[layer]) * (height - 2));
				c.fillRect(left + x, y + 1, 1, h);
			}
		}
	});
}

// largest returns by layer the weight of a pixel of full height: few have more.
function largest(buckets) {
	return buckets.data.map(list => {
		const some = list ? list.filter(v => v > 0).sort() : [];
		return some[Math.floor(some.length * 0.995)] || some[some.length - 1] || 1;
	});
}

// Brush selects time on a canvas by dragging. area returns {left, width, from, to} of the canvas's time axis; change
// gets the selected time and whether the drag has ended, null for all.
class Brush {
	constructor(canvas, area, change) {
		Object.assign(this, {canvas, area, change});
		canvas.addEventListener("pointerdown", e => this.down(e));
		canvas.addEventListener("pointermove", e => this.move(e));
		canvas.addEventListener("pointerup", e => this.up(e));
		canvas.addEventListener("pointercancel", () => (this.start = null));
		canvas.addEventListener("dblclick", () => change(null, true));
	}

	time(e) {
		const {left, width, from, to} = this.area(),
			x = e.clientX - this.canvas.getBoundingClientRect().left - left;
		return from + Math.max(0, Math.min(1, x / width)) * (to - from);
	}

	down(e) {
		if (e.button || e.clientX - this.canvas.getBoundingClientRect().left < this.area().left) return;
		this.start = this.time(e);
		this.x = e.clientX;
		this.moved = false;
		this.canvas.setPointerCapture(e.pointerId);
	}

	move(e) {
		if (this.start === null || this.start === undefined) return;
		if (Math.abs(e.clientX - this.x) > 3) this.moved = true;
		if (this.moved) this.change(this.between(e), false);
	}

	up(e) {
		if (this.start === null || this.start === undefined) return;
		if (this.moved) this.change(this.between(e), true);
		this.start = null;
	}

	between(e) {
		const now = this.time(e);
		return now < this.start ? [now, this.start] : [this.start, now];
	}
}

// drawSelection shades what is outside of the selected time.
function drawSelection(c, range, from, to, left, width, height) {
	if (!range) return;
	const x = t => left + Math.max(0, Math.min(1, (t - from) / (to - from))) * width;
	c.fillStyle = colour("shade");
	c.fillRect(left, 0, x(range[0]) - left, height);
	c.fillRect(x(range[1]), 0, left + width - x(range[1]), height);
	c.fillStyle = colour("accent");
	c.fillRect(x(range[0]) - 1, 0, 2, height);
	c.fillRect(x(range[1]) - 1, 0, 2, height);
}

// drawAxis writes times below a chart.
function drawAxis(c, from, to, left, width, y) {
	const step = niceStep((to - from) / Math.max(2, width / 110));
	c.font = "11px " + fontFamily;
	c.fillStyle = colour("text-dim");
	c.textBaseline = "alphabetic";
	for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
		const x = left + ((t - from) / (to - from)) * width,
			text = formatTime(t),
			w = c.measureText(text).width;
		c.fillRect(x, y - 12, 1, 4);
		if (x + w + 3 < left + width) c.fillText(text, x + 3, y - 2);
	}
}

function niceStep(least) {
	const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
	return [1, 2, 5, 10].map(f => f * power).find(s => s >= least) || 10 * power;
}

// Overview is the strip at the top.
class Overview {
	constructor(canvas) {
		this.canvas = canvas;
		this.brush = new Brush(
			canvas,
			() => ({left: 0, width: canvas.clientWidth, from: page.table.first, to: page.table.last}),
			(range, done) => page.setRange(range, done),
		);
		canvas.addEventListener("keydown", e => this.key(e));
	}

	// count counts the samples again, after filters have changed.
	count() {
		const {table} = page,
			width = this.canvas.parentElement.clientWidth;
		this.buckets = bucketSamples(table, passes(table, page.masks), () => 0, 1, table.first, table.last, width);
		this.draw();
	}

	draw() {
		if (!this.buckets) return;
		const {table, state} = page,
			width = this.buckets.width,
			height = innerHeight < 600 ? 44 : 58;
		const c = fitCanvas(this.canvas, width, height);
		c.clearRect(0, 0, width, height);
		drawRow(c, this.buckets, 0, 0, height - 14, largest(this.buckets), 0);
		drawAxis(c, table.first, table.last, 0, width, height);
		drawSelection(c, state.range, table.first, table.last, 0, width, height - 14);
		const range = state.range || [table.first, table.last],
			part = t => Math.round((100 * (t - table.first)) / (table.last - table.first));
		this.canvas.setAttribute("aria-valuenow", part(range[0]));
		this.canvas.setAttribute(
			"aria-valuetext",
			state.range ? formatTime(range[0]) + " to " + formatTime(range[1]) : "all",
		);
	}

	// Arrow keys move the selected time, with shift its end; + and - make it shorter and longer.
	key(e) {
		const {table, state} = page,
			all = table.last - table.first;
		let [from, to] = state.range || [table.first, table.last];
		const step = Math.max((to - from) / 10, all / 1000),
			keys = {
				"ArrowLeft": () => (e.shiftKey ? (to -= step) : ((from -= step), (to -= step))),
				"ArrowRight": () => (e.shiftKey ? (to += step) : ((from += step), (to += step))),
				"+": () => ((from += step * 2.5), (to -= step * 2.5)),
				"-": () => ((from -= step * 5), (to += step * 5)),
				"Home": () => ((to -= from - table.first), (from = table.first)),
				"End": () => ((from += table.last - to), (to = table.last)),
				"Escape": () => ((from = table.first), (to = table.last)),
			};
		if (!keys[e.key] || e.ctrlKey || e.altKey || e.metaKey) return;
		e.preventDefault();
		e.stopPropagation();
		keys[e.key]();
		from = Math.max(table.first, from);
		to = Math.min(table.last, to);
		if (from >= to) return;
		page.setRange(from <= table.first && to >= table.last ? null : [from, to], true);
		say(formatTime(from) + " to " + formatTime(to));
	}
}

// Timeline is the view of rows.
class Timeline {
	constructor() {
		this.canvas = el("canvas", {"aria-hidden": "true"});
		this.labels = el("ul", {
			"class": "rows",
			"aria-label": "Processes, threads and CPUs: a button shows only its samples",
		});
		this.legend = el("div", {class: "legend"});
		this.tools = el("div", {class: "tools"});
		this.element = el(
			"div",
			{class: "timeline"},
			el("div", {class: "toolbar"}, this.tools, this.legend),
			el("div", {class: "timeline-body"}, this.labels, this.canvas),
			(this.more = el("div", {class: "hint"})),
		);
		this.brush = new Brush(
			this.canvas,
			() => ({left: 0, width: this.width, from: this.span()[0], to: this.span()[1]}),
			(range, done) => page.setRange(range, done),
		);
		this.canvas.addEventListener("pointermove", e => e.pointerType === "mouse" && !e.buttons && this.hover(e));
		this.canvas.addEventListener("pointerleave", hideTip);
		this.canvas.addEventListener("click", e => !this.brush.moved && this.hover(e));
		this.limit = 60;
	}

	// span returns the shown time.
	span() {
		return page.state.shown || [page.table.first, page.table.last];
	}

	show() {
		const {state} = page;
		fill(
			this.tools,
			choice(
				"Rows",
				state.row,
				[
					["processes", "Processes"],
					["threads", "Threads"],
					["cpus", "CPUs"],
				],
				row => page.set({row}),
			),
			el("button", {onclick: () => page.set({shown: state.range}), disabled: !state.range}, "Zoom to selection"),
			el("button", {onclick: () => page.set({shown: null}), disabled: !state.shown}, "Whole time"),
		);
		const key = JSON.stringify([
			filterKey(state),
			state.row,
			this.span(),
			this.limit,
			page.table.version,
			this.element.clientWidth,
		]);
		if (key !== this.key) {
			this.key = key;
			this.count();
		}
		this.draw();
	}

	// rowsOf returns the rows, those with most weight first: {label, detail, filter, on}.
	rowsOf() {
		const {table, state} = page,
			rows = [],
			of = new Map();
		const add = (key, make, w) => {
			let row = of.get(key);
			if (!row) {
				of.set(key, (row = {...make(), index: -1, weight: 0, name: key}));
				rows.push(row);
			}
			row.weight += w;
			return row;
		};
		const passed = passes(table, this.masks),
			byThread = new Float64Array(table.threads.tid.length),
			byCPU = new Float64Array(table.cpus + 1);
		for (let i = 0; i < table.length; i++) {
			if (!passed(i)) continue;
			byThread[table.thread[i]] += table.weight[i];
			byCPU[table.cpu[i] + 1] += table.weight[i];
		}
		this.rowOfThread = new Array(byThread.length);
		this.rowOfCPU = new Array(byCPU.length);
		if (state.row === "cpus") {
			byCPU.forEach((w, i) => {
				if (w) this.rowOfCPU[i] = add(i, () => ({label: i ? "CPU " + (i - 1) : "no CPU", cpu: i - 1}), w);
			});
			rows.sort((a, b) => a.cpu - b.cpu);
			return rows;
		}
		byThread.forEach((w, i) => {
			if (!w) return;
			const t = table.threads;
			if (state.row === "threads") {
				this.rowOfThread[i] = add(
					threadKey(table, i),
					() => ({label: threadLabel(table, threadKey(table, i)), thread: threadKey(table, i)}),
					w,
				);
			} else {
				this.rowOfThread[i] = add(
					processKey(table, i),
					() => ({label: t.process[i], detail: String(t.pid[i]), process: processKey(table, i)}),
					w,
				);
			}
		});
		return rows.sort((a, b) => b.weight - a.weight);
	}

	count() {
		const {table, state} = page,
			[from, to] = this.span();
		// All events are shown, of all threads and CPUs: the view is where to choose from.
		this.masks = makeMasks(table, {...state, processes: [], threads: [], cpus: []});
		this.masks.events.forEach((_, i) => {
			if (!["waking", "bucket"].includes(table.events[i].kind)) this.masks.events[i] = 1;
		});
		const rows = this.rowsOf();
		this.rest = rows.length - this.limit;
		this.rows = rows.slice(0, this.limit);
		this.rows.forEach((row, i) => {
			row.index = i;
		});
		this.rowHeight = this.rows.length > 18 ? 26 : this.rows.length > 9 ? 34 : 48;
		this.labels.style.setProperty("--row", this.rowHeight + "px");
		this.width = Math.max(100, Math.floor(this.element.clientWidth - labelWidth()));
		const rowOf =
			state.row === "cpus"
				? i => this.rowOfCPU[table.cpu[i] + 1].index
				: i => this.rowOfThread[table.thread[i]].index;
		this.buckets = bucketSamples(table, passes(table, this.masks), rowOf, this.rows.length, from, to, this.width);
		this.most = largest(this.buckets);
		fill(
			this.legend,
			...layers
				.filter((_, i) => this.buckets.seen.has(i))
				.map(name => el("span", {class: "key"}, el("i", {class: "swatch " + name}), layerNames[name])),
		);
		fill(
			this.labels,
			...this.rows.map(row =>
				el(
					"li",
					{},
					el(
						"button",
						{
							"class": "row",
							"aria-pressed": String(this.isOn(row)),
							"title": row.label + " " + (row.detail || ""),
							"onclick": () => this.toggle(row),
						},
						row.label,
						row.detail && el("span", {class: "scope"}, " " + row.detail),
					),
				),
			),
		);
		fill(
			this.more,
			this.rest > 0
				? el(
						"button",
						{
							onclick: () => {
								this.limit *= 4;
								this.show();
							},
						},
						`${this.rest} more`,
					)
				: "",
		);
	}

	isOn(row) {
		const s = page.state;
		return s.processes.includes(row.process) || s.threads.includes(row.thread) || s.cpus.includes(row.cpu);
	}

	toggle(row) {
		const s = page.state,
			toggled = (list, v) => (list.includes(v) ? list.filter(x => x !== v) : [...list, v]);
		if (row.process !== undefined) page.set({processes: toggled(s.processes, row.process)});
		else if (row.thread !== undefined) page.set({threads: toggled(s.threads, row.thread)});
		else page.set({cpus: toggled(s.cpus, row.cpu)});
	}

	draw() {
		const height = this.rows.length * this.rowHeight + 18,
			[from, to] = this.span(),
			c = fitCanvas(this.canvas, this.width, height);
		c.clearRect(0, 0, this.width, height);
		c.drawImage(this.picture(height), 0, 0, this.width, height);
		[...this.labels.querySelectorAll("button")].forEach((b, i) =>
			b.setAttribute("aria-pressed", String(this.isOn(this.rows[i]))),
		);
		drawAxis(c, from, to, 0, this.width, height);
		drawSelection(c, page.state.range, from, to, 0, this.width, height - 18);
	}

	// picture returns the rows without the selection, which a drag changes often.
	picture(height) {
		if (this.drawn === this.buckets && this.drawnDark === isDark()) return this.image;
		this.image = document.createElement("canvas");
		const c = fitCanvas(this.image, this.width, height);
		this.rows.forEach((row, i) => {
			if (i % 2) {
				c.fillStyle = colour("stripe");
				c.fillRect(0, i * this.rowHeight, this.width, this.rowHeight);
			}
			drawRow(c, this.buckets, i, i * this.rowHeight, this.rowHeight, this.most, 0);
		});
		this.drawn = this.buckets;
		this.drawnDark = isDark();
		return this.image;
	}

	hover(e) {
		const box = this.canvas.getBoundingClientRect(),
			row = this.rows[Math.floor((e.clientY - box.top) / this.rowHeight)];
		if (!row) return hideTip();
		const x = Math.floor(e.clientX - box.left),
			[from, to] = this.span(),
			t = from + ((x + 0.5) / this.width) * (to - from);
		const at = row.index * this.width + x,
			lines = [];
		this.buckets.data.forEach((list, layer) => {
			if (!list || !list[at]) return;
			const name = layers[layer],
				v = list[at];
			lines.push(
				el(
					"div",
					{},
					layerNames[name] +
						": " +
						(name === "cpu"
							? formatWeight(v, page.unit())
							: name === "wait" || name === "span"
								? formatShare(Math.min(v, 1), 1) + " of the time"
								: String(v)),
				),
			);
		});
		showTip(
			e.clientX,
			e.clientY,
			el("div", {class: "tip-name"}, row.label + " " + (row.detail || "")),
			el("div", {}, formatTime(t)),
			...lines,
		);
	}
}

const labelWidth = () => (innerWidth < 700 ? 120 : 200);
const layerNames = {cpu: "on CPU", wait: "waiting", span: "spans", mark: "events", drop: "drops"};
