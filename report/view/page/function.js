// FunctionView is the view of one function: its callers and callees, its source, and its code.
class FunctionView {
	constructor() {
		this.head = el("div", {class: "function-head"});
		this.tools = el("div", {class: "toolbar"});
		this.body = el("div", {class: "function-body"});
		this.element = el("div", {class: "column"}, this.head, this.tools, this.body);
		const act = {
			open: box => page.open(box.fn),
			zoom: box => page.open(box.fn),
			focus: box => page.focusOn(box.fn),
			hide: box => page.hideFunction(box.fn),
			leave: () => {},
		};
		this.callers = new FlameChart("Callers", act);
		this.callees = new FlameChart("Callees", act);
		this.lines = new Map(); // by file: a promise of its lines
		this.codes = new Map();
	}

	show() {
		const {table, state, counted, tree} = page,
			names = table.functions.name;
		const rows = byFunction(tree, counted);
		let fn = names.findIndex((_, i) => page.isOpened(i));
		const row =
			rows.find(r => page.isOpened(r.fn)) || (state.fn ? null : rows.sort((a, b) => b.self - a.self)[0]);
		if (row) fn = row.fn;
		if (fn < 0) {
			fill(this.head);
			fill(this.tools);
			fill(
				this.body,
				el("p", {class: "empty"}, state.fn ? "No function of this name: " + state.fn : page.emptyText()),
			);
			return;
		}
		this.fn = fn;
		const all = counted.all.self,
			full = names[fn],
			sums = row || {self: 0, total: 0, count: 0, base: 0};
		fill(
			this.head,
			el("h2", {}, nameElement(full)),
			el(
				"details",
				{},
				el("summary", {}, "Whole name and file"),
				el("p", {class: "whole"}, full),
				el("p", {class: "whole"}, table.dsos[table.functions.dso[fn]]),
			),
			el(
				"p",
				{class: "sums"},
				el("b", {}, formatShare(sums.self, all)),
				" self, ",
				el("b", {}, formatShare(sums.total, all)),
				" with callees, ",
				sums.count.toLocaleString("en") + " samples",
				table.hasBaseline ? ", self before " + formatShare(sums.base, all) : "",
			),
		);
		fill(
			this.tools,
			choice(
				"Part",
				state.part,
				[["callers", "Callers and callees"], ["source", "Source"], isServed && ["code", "Instructions"]].filter(
					Boolean,
				),
				part => page.set({part}),
			),
			el("button", {onclick: () => page.focusOn(fn)}, "Focus"),
			el("button", {onclick: () => page.hideFunction(fn)}, "Hide"),
		);
		if (state.part === "source") this.showSource(fn);
		else if (state.part === "code" && isServed) this.showCode(fn);
		else this.showSandwich(fn);
	}

	showSandwich(fn) {
		const {tree, counted} = page;
		if (this.body.dataset.part !== "callers") {
			fill(
				this.body,
				el("h3", {}, "Callers"),
				this.callers.element,
				el("h3", {}, "Callees"),
				this.callees.element,
			);
			this.body.dataset.part = "callers";
		}
		const least = 0.7 / (this.body.clientWidth || 800),
			colours = frameColours(page.colour(), counted);
		for (const [chart, inverted] of [
			[this.callers, true],
			[this.callees, false],
		]) {
			const {boxes, width} = layEntries(tree, counted, functionEntry(tree, counted, fn, inverted), least);
			chart.show(boxes, {
				width,
				all: counted.all.self,
				unit: page.unit(),
				up: inverted,
				colours,
				matches: page.matches(),
				notice: boxes.length < 2 ? "none" : "",
			});
		}
	}

	// linesOf returns the sums of a function's lines by file: {file, lines: Map(line → {self, total}), start}.
	linesOf(fn) {
		const {table, counted, tree} = page,
			files = new Map(),
			sums = counted.byTableNode(),
			totals = sums.total;
		for (let i = 1; i < totals.length; i++) {
			const frame = table.nodeFrame[i];
			if (table.frameFunction[frame] !== fn || !totals[i]) continue;
			const file = table.frameFile[frame],
				line = table.frameLine[frame];
			let of = files.get(file);
			if (!of) files.set(file, (of = {file, lines: new Map(), start: 0, self: 0, total: 0}));
			let sum = of.lines.get(line);
			if (!sum) of.lines.set(line, (sum = {self: 0, total: 0}));
			of.start ||= table.frameStart[frame];
			sum.self += sums.self[i];
			of.self += sums.self[i];
			if (tree.outer[tree.of[i]]) ((sum.total += totals[i]), (of.total += totals[i]));
		}
		return [...files.values()].sort((a, b) => b.total - a.total);
	}

	showSource(fn) {
		this.body.dataset.part = "source";
		const files = this.linesOf(fn).filter(f => f.file > 0);
		if (!files.length) {
			fill(
				this.body,
				el(
					"p",
					{class: "empty"},
					"No source lines: the program was built without debug information (-g), or it is " +
						"not on this machine.",
				),
			);
			return;
		}
		fill(
			this.body,
			...files.map(f => {
				const box = el(
					"section",
					{class: "source"},
					el("h3", {}, page.table.files[f.file]),
					this.sourceTable(f, null),
				);
				this.sourceOf(f.file).then(lines => {
					if (lines && box.isConnected) box.lastChild.replaceWith(this.sourceTable(f, lines));
				});
				return box;
			}),
		);
	}

	// sourceOf returns a promise of the lines of a source file, null if it is missing.
	sourceOf(file) {
		if (!isServed) return Promise.resolve(null);
		if (!this.lines.has(file)) {
			this.lines.set(
				file,
				fetch("source?file=" + file)
					.then(a => (a.ok ? a.json() : null))
					.catch(() => null),
			);
		}
		return this.lines.get(file);
	}

	sourceTable(f, text) {
		const all = page.counted.all.self,
			numbers = [...f.lines.keys()].filter(n => n > 0).sort((a, b) => a - b);
		const most = Math.max(...[...f.lines.values()].map(s => s.total), 1),
			shown = [];
		const first = f.start > 0 && f.start <= numbers[0] ? f.start : numbers[0];
		if (text) {
			const near = new Set();
			for (const n of numbers)
				for (let k = n - 6; k <= n + 6; k++) if (k >= Math.max(1, first - 2) && k <= text.length) near.add(k);
			for (let k = Math.max(1, first - 1); k < first + 3 && k <= text.length; k++) near.add(k);
			shown.push(...[...near].sort((a, b) => a - b));
		} else {
			shown.push(...numbers);
		}
		const rows = [];
		shown.forEach((n, i) => {
			if (i && n !== shown[i - 1] + 1)
				rows.push(el("tr", {class: "gap"}, el("td", {colspan: 4}, text ? "⋮" : "")));
			const sum = f.lines.get(n) || {self: 0, total: 0},
				heat = sum.total / most;
			rows.push(
				el(
					"tr",
					{class: heat ? "hot" : "", style: heat ? {"--heat": (8 + 42 * heat).toFixed(0) + "%"} : {}},
					el("td", {class: "number"}, sum.self ? formatShare(sum.self, all) : ""),
					el("td", {class: "number"}, sum.total ? formatShare(sum.total, all) : ""),
					el("th", {scope: "row", class: "number"}, String(n)),
					el("td", {class: "code"}, text ? text[n - 1] : ""),
				),
			);
		});
		const title = text
			? "Source"
			: isServed
				? "The file is not on this machine"
				: "An exported page has no source text";
		return el(
			"table",
			{class: "lines"},
			el(
				"thead",
				{},
				el(
					"tr",
					{},
					el("th", {scope: "col", class: "number"}, "Self"),
					el("th", {scope: "col", class: "number"}, "Total"),
					el("th", {scope: "col", class: "number"}, "Line"),
					el("th", {scope: "col"}, title),
				),
			),
			el("tbody", {}, rows),
		);
	}

	showCode(fn) {
		this.body.dataset.part = "code";
		const show = text => {
			const lines = text.split("\n").map(line => {
				const percent = /^\s*(\d+\.\d+)/.exec(line),
					hot = percent && Number(percent[1]) > 0;
				const row = el("span", {class: hot ? "hot" : ""}, line + "\n");
				if (hot) row.style.setProperty("--heat", Math.min(50, 8 + 2 * Number(percent[1])).toFixed(0) + "%");
				return row;
			});
			if (this.body.dataset.part === "code" && this.fn === fn) {
				fill(
					this.body,
					el("pre", {"class": "assembly", "tabindex": 0, "aria-label": "Instructions"}, lines),
				);
			}
		};
		if (!this.codes.has(fn)) {
			fill(this.body, el("p", {class: "empty"}, "Reading the recording again…"));
			this.codes.set(
				fn,
				fetch("annotate?function=" + fn)
					.then(a => a.text())
					.catch(e => String(e)),
			);
		}
		this.codes.get(fn).then(show);
	}
}
