// FieldView divides the samples by the fields of their event, such as drops by reason, location and flow, or spans by
// system call, and by process and CPU.
class FieldView {
	constructor() {
		this.element = el("div", {class: "scroll fields"});
		this.limits = {};
	}

	show() {
		const {table, state} = page,
			passed = passes(table, page.masks),
			n = table.threads.tid.length;
		const byGroup = new Sums(table.groups.length),
			byThread = new Sums(n),
			byCPU = new Sums(table.cpus + 1);
		for (const [from, to] of ranges(table, state.range)) {
			for (let i = from; i < to; i++) {
				if (!passed(i) || (table.hasBaseline && table.isBaseline[table.thread[i]])) continue;
				const w = amountOf(table, page.masks, i);
				if (table.group && table.group[i] >= 0) byGroup.add(table.group[i], w);
				byThread.add(table.thread[i], w);
				byCPU.add(table.cpu[i] + 1, w);
			}
		}
		const cards = new Map(),
			add = (card, value, sums, i) => {
				if (!sums.count[i]) return;
				if (!cards.has(card)) cards.set(card, new Map());
				const of = cards.get(card);
				of.set(value, (of.get(value) || 0) + sums.weight[i]);
			};
		table.groups.forEach((pairs, g) => {
			for (let i = 0; i < pairs.length; i += 2) add(table.keys[pairs[i]], table.values[pairs[i + 1]], byGroup, g);
		});
		const shown = new Set();
		for (const [key, values] of cards) {
			// a system call's number has the same names as the system call
			const text = JSON.stringify([...values]);
			if (shown.has(text) && values.size > 1) cards.delete(key);
			shown.add(text);
		}
		const fields = [...cards].map(([key, values]) =>
			this.card(key, values, {
				name: v => v || "(empty)",
				on: v => state.fields.some(f => f.key === key && f.value === v),
				toggle: v => page.toggleField(key, v),
			}),
		);
		cards.clear();
		for (let i = 0; i < n; i++) add("process", processKey(table, i), byThread, i);
		for (let i = 0; i < n; i++) if (table.timed) add("thread", threadKey(table, i), byThread, i);
		for (let i = 1; i <= table.cpus; i++) add("CPU", i - 1, byCPU, i);
		const toggled = (list, v) => (list.includes(v) ? list.filter(x => x !== v) : [...list, v]);
		const common = [
			["process", "processes", v => processName(table, v)],
			["thread", "threads", v => threadLabel(table, v)],
			["CPU", "cpus", v => "CPU " + v],
		]
			.filter(([key]) => cards.has(key))
			.map(([key, list, name]) =>
				this.card(key, cards.get(key), {
					name,
					on: v => state[list].includes(v),
					toggle: v => page.set({[list]: toggled(state[list], v)}),
				}),
			);
		const all = [...fields, ...common];
		fill(this.element, ...(all.length ? all : [el("p", {class: "empty"}, page.emptyText())]));
	}

	// card shows the weights of values. A button for each makes it a filter.
	card(key, weights, {name, on, toggle}) {
		const limit = this.limits[key] || 12,
			values = [...weights].sort((a, b) => b[1] - a[1]),
			all = page.counted.all.self;
		const rows = values.slice(0, limit).map(([v, weight]) =>
			el(
				"tr",
				{class: on(v) ? "selected" : ""},
				el(
					"th",
					{scope: "row"},
					el(
						"button",
						{
							"class": "link",
							"aria-pressed": String(on(v)),
							"title": name(v),
							"onclick": () => toggle(v),
						},
						name(v),
					),
				),
				shareCell(weight, all),
				el("td", {class: "number"}, formatWeight(weight, page.unit())),
			),
		);
		return el(
			"section",
			{class: "card"},
			el(
				"h3",
				{},
				key,
				el(
					"span",
					{class: "scope"},
					" " + values.length.toLocaleString("en") + (values.length === 1 ? " value" : " values"),
				),
			),
			el(
				"table",
				{},
				el(
					"thead",
					{},
					el(
						"tr",
						{},
						el("th", {scope: "col"}, key),
						el("th", {scope: "col", class: "number"}, "Share"),
						el("th", {scope: "col", class: "number"}, page.unitName()),
					),
				),
				el("tbody", {}, rows),
			),
			values.length > limit &&
				el(
					"button",
					{
						class: "more",
						onclick: () => {
							this.limits[key] = limit * 5;
							this.show();
						},
					},
					`Show more: ${values.length - limit} are left`,
				),
		);
	}
}

// Sums are weights and numbers of samples by index.
class Sums {
	constructor(n) {
		this.weight = new Float64Array(n);
		this.count = new Int32Array(n);
	}

	add(i, weight) {
		this.weight[i] += weight;
		this.count[i]++;
	}
}
