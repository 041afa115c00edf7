// Tables: functions, and call trees.

// choice makes a group of buttons of which one is pressed.
function choice(label, value, options, set) {
	return el(
		"span",
		{"class": "choice", "role": "group", "aria-label": label},
		options.map(([v, text]) => el("button", {"aria-pressed": String(v === value), "onclick": () => set(v)}, text)),
	);
}

// FunctionTable is the view of functions.
class FunctionTable {
	constructor() {
		this.element = el("div", {class: "scroll"});
		this.limit = 200;
		this.element.addEventListener("keydown", e => moveFocus(e, this.element));
	}

	columns() {
		const diff = page.table.hasBaseline;
		return [
			{id: "name", text: "Function"},
			{id: "self", text: "Self", number: true},
			{id: "total", text: "Total", number: true},
			diff && {id: "base", text: "Self before", number: true},
			diff && {id: "change", text: "Change", number: true},
			{id: "count", text: "Samples", number: true, wide: true},
			{id: "dso", text: "DSO", wide: true},
		].filter(Boolean);
	}

	show() {
		const {state, table, counted, tree} = page,
			names = table.functions.name,
			match = state.search ? matcher(state.search) : () => true;
		const dso = fn => table.dsos[table.functions.dso[fn]];
		let rows = byFunction(tree, counted).filter(r => match(names[r.fn]) && !(table.functions.flags[r.fn] & label));
		const by =
			{
				name: r => names[r.fn],
				dso: r => dso(r.fn),
				self: r => -r.self,
				total: r => -r.total,
				count: r => -r.count,
				base: r => -r.base,
				change: r => -Math.abs(r.self - r.base),
			}[state.sort] || (r => -r.self);
		const keyed = rows.map(r => [by(r), -r.total, r]);
		keyed.sort(
			(a, b) =>
				(a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) || a[1] - b[1] || (names[a[2].fn] < names[b[2].fn] ? -1 : 1),
		);
		rows = keyed.map(k => k[2]);
		const all = counted.all.self || counted.all.base * counted.scale,
			columns = this.columns();
		const head = el(
			"tr",
			{},
			columns.map(c =>
				el(
					"th",
					{
						"scope": "col",
						"class": (c.number ? "number " : "") + (c.wide ? "wide" : ""),
						"aria-sort": state.sort === c.id ? (c.number ? "descending" : "ascending") : null,
					},
					el(
						"button",
						{onclick: () => page.set({sort: c.id})},
						c.text,
						state.sort === c.id && el("span", {"aria-hidden": "true"}, c.number ? " ▾" : " ▴"),
					),
				),
			),
		);
		const body = rows
			.slice(0, page.dragging ? 40 : this.limit)
			.map((r, i) =>
				el(
					"tr",
					{class: page.isOpened(r.fn) ? "selected" : ""},
					el(
						"th",
						{scope: "row"},
						el(
							"button",
							{class: "link", tabindex: i ? -1 : 0, onclick: () => page.open(r.fn)},
							nameElement(names[r.fn]),
						),
					),
					shareCell(r.self, all),
					shareCell(r.total, all, "total"),
					table.hasBaseline && el("td", {class: "number"}, formatShare(r.base, all)),
					table.hasBaseline &&
						el(
							"td",
							{class: "number " + (r.self > r.base ? "up" : "down")},
							changeText(r.self - r.base, all),
						),
					el("td", {class: "number wide"}, r.count.toLocaleString("en")),
					el("td", {class: "wide dso", title: dso(r.fn)}, shortPath(dso(r.fn))),
				),
			);
		const left = rows.length - this.limit;
		fill(
			this.element,
			el(
				"table",
				{class: "functions"},
				el("caption", {class: "hidden"}, "Functions by their samples"),
				el("thead", {}, head),
				el("tbody", {}, body),
			),
			(left > 0 &&
				el(
					"button",
					{
						class: "more",
						onclick: () => {
							this.limit *= 5;
							this.show();
						},
					},
					`Show more: ${left.toLocaleString("en")} functions are left`,
				)) ||
				"",
			rows.length ? "" : el("p", {class: "empty"}, page.emptyText()),
		);
	}
}

const shortPath = path => (path.startsWith("[") ? path : path.slice(path.lastIndexOf("/") + 1));

// moveFocus moves the focus between the rows of a table.
function moveFocus(e, element) {
	const buttons = [...element.querySelectorAll("tbody button.link")],
		at = buttons.indexOf(document.activeElement);
	const next = {
		ArrowDown: at + 1,
		ArrowUp: at - 1,
		Home: 0,
		End: buttons.length - 1,
		PageDown: at + 15,
		PageUp: at - 15,
	}[e.key];
	if (next === undefined || at < 0 || e.ctrlKey || e.altKey || e.metaKey) return;
	e.preventDefault();
	const to = buttons[Math.max(0, Math.min(buttons.length - 1, next))];
	buttons[at].tabIndex = -1;
	to.tabIndex = 0;
	to.focus();
}

// CallTree is the view of callees, or with down false of callers, level by level.
class CallTree {
	constructor() {
		this.tools = el("div", {class: "toolbar"});
		this.scroll = el("div", {class: "scroll"});
		this.element = el("div", {class: "column"}, this.tools, this.scroll);
		this.open = new Set();
		this.scroll.addEventListener("keydown", e => this.key(e));
	}

	show() {
		const {state, counted, tree} = page;
		fill(
			this.tools,
			choice(
				"Direction",
				String(state.down),
				[
					["true", "Callees: top down"],
					["false", "Callers: bottom up"],
				],
				v => page.set({down: v === "true"}),
			),
			el("button", {onclick: () => this.openHeaviest()}, "Open the heaviest path"),
			el(
				"button",
				{
					onclick: () => {
						this.open.clear();
						this.show();
					},
				},
				"Close all",
			),
		);
		this.rows = [];
		this.all = counted.all.self;
		const root = rootEntry(tree, counted, !state.down);
		this.root = root;
		this.add(root, 0, "");
		if (!this.open.size && this.rows.length && state.down) {
			this.openHeaviest();
			return;
		}
		this.draw();
	}

	// add appends the rows of an entry's callees or callers.
	add(entry, level, path) {
		const {tree, counted} = page;
		entry.next ||= nextEntries(tree, counted, entry);
		const shown = entry.next.filter(n => n.total >= 0.0005 * this.all || n.base > 0).slice(0, 300);
		shown.forEach((next, i) => {
			const row = {entry: next, level, path: path + "/" + next.fn, count: shown.length, position: i + 1};
			row.more = this.hasNext(next);
			this.rows.push(row);
			if (this.open.has(row.path)) this.add(next, level + 1, row.path);
		});
	}

	hasNext(entry) {
		const {tree, counted} = page;
		return entry.parts.some(p =>
			entry.inverted
				? tree.parent[p.node] > 0
				: tree.children
						.subarray(tree.childStart[p.node], tree.childStart[p.node + 1])
						.some(c => counted.total[c] > 0),
		);
	}

	openHeaviest() {
		const {tree, counted} = page;
		let entry = this.root,
			path = "";
		for (let depth = 0; depth < 60; depth++) {
			entry.next ||= nextEntries(tree, counted, entry);
			const next = entry.next[0];
			if (!next || next.total < 0.02 * this.all) break;
			path += "/" + next.fn;
			this.open.add(path);
			entry = next;
		}
		this.open.add("opened");
		this.show();
	}

	draw() {
		const {table, state} = page,
			names = table.functions.name,
			match = state.search ? matcher(state.search) : null;
		const focused = document.activeElement?.closest?.("tr")?.dataset.path;
		const body = this.rows.slice(0, 3000).map((row, i) => {
			const name = names[row.entry.fn],
				opened = this.open.has(row.path);
			return el(
				"tr",
				{
					"role": "row",
					"aria-level": row.level + 1,
					"aria-posinset": row.position,
					"aria-setsize": row.count,
					"aria-expanded": row.more ? String(opened) : null,
					"data-path": row.path,
					"data-row": i,
					"tabindex": i ? -1 : 0,
					"class": match && match(name) ? "found" : "",
				},
				el(
					"th",
					{scope: "row", role: "rowheader", style: {"padding-left": 8 + 14 * Math.min(row.level, 40) + "px"}},
					row.more
						? el(
								"button",
								{
									"class": "twist",
									"tabindex": -1,
									"aria-label": (opened ? "Close " : "Open ") + name,
									"onclick": () => this.toggle(row),
								},
								opened ? "▾" : "▸",
							)
						: el("span", {class: "twist"}),
					el(
						"button",
						{class: "link", tabindex: -1, onclick: () => page.open(row.entry.fn)},
						nameElement(name),
					),
				),
				shareCell(row.entry.total, this.all, "total"),
				shareCell(row.entry.self, this.all),
				table.hasBaseline &&
					el(
						"td",
						{role: "gridcell", class: "number"},
						changeText(row.entry.total - row.entry.base, this.all),
					),
			);
		});
		fill(
			this.scroll,
			el(
				"table",
				{"class": "tree", "role": "treegrid", "aria-label": state.down ? "Callees" : "Callers"},
				el(
					"thead",
					{},
					el(
						"tr",
						{role: "row"},
						el("th", {scope: "col", role: "columnheader"}, "Function"),
						el("th", {scope: "col", role: "columnheader", class: "number"}, "Total"),
						el(
							"th",
							{scope: "col", role: "columnheader", class: "number"},
							state.down ? "Self" : "Outermost",
						),
						table.hasBaseline && el("th", {scope: "col", role: "columnheader", class: "number"}, "Change"),
					),
				),
				el("tbody", {}, body),
			),
			this.rows.length ? "" : el("p", {class: "empty"}, page.emptyText()),
		);
		for (const td of this.scroll.querySelectorAll("td")) td.setAttribute("role", "gridcell");
		if (focused) this.focus([...this.scroll.querySelectorAll("tr")].find(r => r.dataset.path === focused));
	}

	toggle(row) {
		if (this.open.has(row.path)) this.open.delete(row.path);
		else this.open.add(row.path);
		this.open.add("opened");
		this.show();
	}

	focus(tr) {
		if (!tr) return;
		for (const other of this.scroll.querySelectorAll("tr[tabindex='0']")) other.tabIndex = -1;
		tr.tabIndex = 0;
		tr.focus();
	}

	key(e) {
		const tr = e.target.closest("tr[data-row]");
		if (!tr || e.ctrlKey || e.altKey || e.metaKey) return;
		const row = this.rows[tr.dataset.row],
			list = [...this.scroll.querySelectorAll("tr[data-row]")],
			at = list.indexOf(tr);
		const opened = this.open.has(row.path);
		switch (e.key) {
			case "ArrowDown":
				this.focus(list[at + 1]);
				break;
			case "ArrowUp":
				this.focus(list[at - 1]);
				break;
			case "Home":
				this.focus(list[0]);
				break;
			case "End":
				this.focus(list[list.length - 1]);
				break;
			case "ArrowRight":
				if (row.more && !opened) (tr.focus(), this.toggle(row));
				else this.focus(list[at + 1]);
				break;
			case "ArrowLeft":
				if (opened) (tr.focus(), this.toggle(row));
				else
					this.focus(
						list
							.slice(0, at)
							.reverse()
							.find(r => this.rows[r.dataset.row].level < row.level),
					);
				break;
			case "Enter":
				if (e.target === tr) page.open(row.entry.fn);
				else return;
				break;
			case "f":
				page.focusOn(row.entry.fn);
				break;
			case "x":
				page.hideFunction(row.entry.fn);
				break;
			default:
				return;
		}
		e.preventDefault();
		e.stopPropagation();
	}
}
