// The page: it keeps table, state and counts, and shows one view.

const views = [
	["flame", "Flame graph"],
	["timeline", "Timeline"],
	["functions", "Functions"],
	["tree", "Call tree"],
	["function", "Function"],
	["fields", "Breakdown"],
];

const page = {
	table: null,
	state: null,
	tree: null,
	masks: null,
	counted: null,
	dragging: false,

	// set changes the state, and shows what depends on it. An entry of the browser's history remembers the old state.
	set(change, replace) {
		Object.assign(this.state, change);
		history[replace ? "replaceState" : "pushState"](null, "", toHash(this.state));
		this.update();
	},

	// setRange selects time. A drag changes the address at its end.
	setRange(range, done) {
		if (range && range[1] - range[0] < 1) return;
		this.state.range = range && range[0] <= this.table.first && range[1] >= this.table.last ? null : range;
		if (done) history.replaceState(null, "", toHash(this.state));
		this.dragging = !done;
		this.later();
	},

	// later updates the page before the next frame of the screen.
	later() {
		this.waiting ||= requestAnimationFrame(() => {
			this.waiting = 0;
			this.update();
		});
	},

	// match asks which samples the filter's expression selects, and then updates the page.
	async match() {
		const {table, state} = this;
		if (this.matching === state.filter) return;
		this.matching = state.filter;
		const wrong = await match(table, state.filter);
		this.matching = null;
		byID("wrong").textContent = wrong;
		byID("wrong").hidden = !wrong;
		if (wrong) state.filter = table.matched || "";
		this.filtered = "";
		this.later();
	},

	update() {
		const began = performance.now(),
			{table, state} = this;
		if (state.filter && table.matched !== state.filter) {
			this.match();
			return;
		}
		document.documentElement.toggleAttribute("data-dark", isDark());
		this.makeTree();
		const key = filterKey(state) + table.version;
		const filtered = key !== this.filtered;
		if (filtered) {
			this.filtered = key;
			this.masks = makeMasks(table, state);
			if (table.timed) overview.count();
		}
		const counting = key + state.range + state.merge;
		if (counting !== this.countedKey) {
			this.countedKey = counting;
			this.counted.run(this.masks, state.range);
		}
		if (state.zoom >= this.tree.length || (state.zoom && !widths(this.counted)[state.zoom])) state.zoom = 0;
		byID("overview").hidden = !table.timed;
		overview.draw();
		showControls();
		showView();
		showStatus();
		performance.measure("update", {start: began});
	},

	makeTree() {
		const {table, state} = this;
		if (this.merged === state.merge && this.counted?.table === table) return;
		this.tree = makeTree(table, state.merge);
		this.merged = state.merge;
		this.counted = new Counter(table, this.tree);
		this.countedKey = "";
	},

	event() {
		return this.table.events.find(e => e.name === this.state.event) || this.table.events[0] || {};
	},
	unit() {
		return this.state.metric === "samples" ? "samples" : this.event().unit || "";
	},
	unitName() {
		return this.unit() === "nanoseconds" ? "Time" : this.unit() === "samples" ? "Samples" : "Count";
	},

	// byTime reports whether flame graphs are in the order of time.
	byTime() {
		return this.table.timed && this.state.order === "time";
	},
	// has reports whether there is a view of this name.
	has(view) {
		return Object.hasOwn(viewOf, view) && (this.table.timed || view !== "timeline");
	},

	colour() {
		return this.state.colour || (this.table.hasBaseline ? "change" : "kind");
	},

	// matches returns which functions the search finds, by their numbers, null without a search.
	matches() {
		const {search} = this.state;
		if (!search) return null;
		if (this.matchedFor !== search || this.matchedIn !== this.table) {
			const match = matcher(search);
			this.matched = Uint8Array.from(this.table.functions.name, name => (match(name) ? 1 : 0));
			this.matchedFor = search;
			this.matchedIn = this.table;
		}
		return this.matched;
	},

	open(fn) {
		const {functions, dsos} = this.table;
		if (fn >= 0) this.set({view: "function", fn: functions.name[fn], dso: dsos[functions.dso[fn]]});
	},
	// isOpened reports whether a function is the one that the address names. Functions of several files have one name.
	isOpened(fn) {
		const {table, state} = this;
		return table.functions.name[fn] === state.fn && (!state.dso || table.dsos[table.functions.dso[fn]] === state.dso);
	},
	focusOn(fn) {
		const pattern = "=" + this.table.functions.name[fn];
		if (fn >= 0 && !this.state.focus.includes(pattern)) this.set({focus: [...this.state.focus, pattern], zoom: 0});
	},
	hideFunction(fn) {
		const pattern = "=" + this.table.functions.name[fn];
		if (fn >= 0 && !this.state.hide.includes(pattern)) this.set({hide: [...this.state.hide, pattern], zoom: 0});
	},
	toggleField(key, value) {
		const {fields} = this.state,
			left = fields.filter(f => f.key !== key || f.value !== value);
		this.set({fields: left.length < fields.length ? left : [...fields, {key, value}]});
	},

	emptyText() {
		if (!this.table.length) return this.table.live ? "No samples yet." : "The recording has no samples.";
		if (this.state.search) return "No function matches the search in the selected samples.";
		return "No samples are selected: remove a filter, or select other time.";
	},
};

const overview = new Overview(byID("overview-canvas"));
let flameView, timelineView, functionTable, callTree, functionView, fieldView;

// FlameView is the view of the flame graph of all selected samples.
class FlameView {
	constructor() {
		this.tools = el("div", {class: "toolbar"});
		this.chart = new FlameChart("Flame graph", {
			open: box => page.open(box.fn),
			focus: box => box.fn >= 0 && page.focusOn(box.fn),
			hide: box => box.fn >= 0 && page.hideFunction(box.fn),
			zoom: box => this.zoom(box),
			leave: () => this.leave(),
		});
		this.element = el("div", {class: "column"}, this.tools, this.chart.element);
		this.span = [0, 1];
	}

	zoom(box) {
		if (page.byTime()) {
			this.span = box.start === undefined ? [0, 1] : [box.start, box.end];
			page.update();
		} else {
			page.set({zoom: box.node === page.state.zoom ? 0 : box.node});
		}
	}

	leave() {
		if (page.byTime()) {
			this.span = [0, 1];
			page.update();
		} else if (page.state.zoom) {
			page.set({zoom: page.tree.parent[page.state.zoom]});
		}
	}

	// legend explains the colours.
	legend() {
		const {counted} = page,
			colour = page.colour();
		let items = [["Kernel", "kernel"], colour === "dso" ? null : ["User", "user"], ["No name", "unnamed"]];
		if (colour === "kind" && page.table.functions.flags.some(f => f & 8)) items.push(["JIT, runtime", "jit"]);
		if (counted.off && counted.offTotal[0]) items.push(["Waiting", "waits"]);
		if (colour === "change")
			items = [
				["More than before", "grew"],
				["Less", "shrank"],
				["Within the noise", "same"],
			];
		return el(
			"span",
			{class: "legend"},
			items
				.filter(Boolean)
				.map(([text, name]) => el("span", {class: "key"}, el("i", {class: "swatch " + name}), text)),
		);
	}

	show() {
		const {state, table, tree, counted} = page,
			timed = page.byTime();
		const zoomed = timed ? this.span[0] > 0 || this.span[1] < 1 : state.zoom > 0;
		fill(
			this.tools,
			choice(
				"Order",
				state.order,
				[
					["heavy", "Left-heavy"],
					["name", "By name"],
					table.timed && ["time", "By time"],
				].filter(Boolean),
				order => page.set({order, zoom: 0}),
			),
			choice(
				"Direction",
				String(state.flip),
				[
					["false", "Icicle"],
					["true", "Flame"],
				],
				v => page.set({flip: v === "true"}),
			),
			choice(
				"Colour",
				page.colour(),
				[table.hasBaseline && ["change", "Change"], ["kind", "Kernel, user"], ["dso", "By file"]].filter(
					Boolean,
				),
				colour => page.set({colour}),
			),
			table.hasBaseline && !timed
				? choice(
						"Widths",
						String(state.before),
						[
							["false", "Now"],
							["true", "Before"],
						],
						v => page.set({before: v === "true"}),
					)
				: "",
			el(
				"button",
				{
					disabled: !zoomed,
					onclick: () => {
						this.span = [0, 1];
						page.set({zoom: 0});
					},
				},
				"Reset zoom",
			),
			this.legend(),
		);
		const least = 0.5 / (this.chart.element.clientWidth || 800);
		const {boxes, width, threads} = timed
			? layTimes(table, tree, page.masks, state.range, this.span, least, page.dragging)
			: layTree(tree, counted, state.zoom, state.order, least);
		const notice = !boxes.length
			? page.emptyText()
			: timed
				? `${threads} threads, the busiest first; each from left to right in the order of time`
				: "A click or Enter zooms; the selected frame is described here";
		this.chart.show(boxes, {
			width,
			all: counted.all.self,
			unit: page.unit(),
			up: state.flip,
			matches: page.matches(),
			notice,
			colours: frameColours(page.colour(), counted),
		});
	}
}

const viewOf = {
	flame: () => (flameView ||= new FlameView()),
	timeline: () => (timelineView ||= new Timeline()),
	functions: () => (functionTable ||= new FunctionTable()),
	tree: () => (callTree ||= new CallTree()),
	function: () => (functionView ||= new FunctionView()),
	fields: () => (fieldView ||= new FieldView()),
};

function showView() {
	const panel = byID("panel"),
		name = page.has(page.state.view) ? page.state.view : "flame",
		view = viewOf[name]();
	if (panel.firstChild !== view.element) fill(panel, view.element);
	panel.setAttribute("aria-labelledby", "tab-" + name);
	view.show();
}

// showControls shows the state in the controls above the view.
function showControls() {
	const {table, state} = page;
	const key = JSON.stringify(state) + table.version;
	if (key === page.controlsKey) return;
	page.controlsKey = key;
	const shown = views.filter(([name]) => page.has(name));
	const tabs = shown.map(([name, text]) => {
		const label = name === "fields" && page.event().kind === "drop" ? "Drops" : text;
		return el(
			"button",
			{
				"id": "tab-" + name,
				"role": "tab",
				"aria-selected": String(state.view === name),
				"aria-controls": "panel",
				"tabindex": state.view === name ? 0 : -1,
				"onclick": () => page.set({view: name}),
			},
			label,
		);
	});
	const focused = document.activeElement?.role === "tab";
	fill(byID("tabs"), ...tabs, el("span", {class: "grow", role: "presentation"}));
	if (focused) byID("tab-" + state.view)?.focus();
	byID("event").value = state.event;
	byID("metric").value = state.metric;
	if (document.activeElement !== byID("search")) byID("search").value = state.search;
	showFilters();
}

// showFilters shows the filters: a chip for each, and lists to add others.
function showFilters() {
	const {table, state} = page,
		chips = [];
	const chip = (kind, text, remove) =>
		chips.push(
			el(
				"span",
				{class: "chip"},
				el("span", {class: "chip-kind"}, kind + " "),
				text,
				el("button", {"aria-label": "Remove the filter " + kind + " " + text, "onclick": remove}, "×"),
			),
		);
	const without = (name, v) => () => page.set({[name]: state[name].filter(x => x !== v), zoom: 0});
	if (state.range)
		chip("time", formatTime(state.range[0]) + " – " + formatTime(state.range[1]), () => page.setRange(null, true));
	for (const p of state.processes) chip("process", processName(table, p), without("processes", p));
	for (const t of state.threads) chip("thread", threadLabel(table, t), without("threads", t));
	for (const c of state.cpus) chip("CPU", String(c), without("cpus", c));
	const bare = p => (p[0] === "=" ? nameParts(p.slice(1)).base : p);
	for (const p of state.focus) chip("focus", bare(p), without("focus", p));
	for (const p of state.hide) chip("hide", bare(p), without("hide", p));
	for (const f of state.fields) chip(f.key, f.value, () => page.toggleField(f.key, f.value));
	const focused = document.activeElement?.id;
	fill(
		byID("filters"),
		isServed && filterInput(state),
		addList("add-process", "Process…", processList(table), p =>
			page.set({processes: [...new Set([...state.processes, p])]}),
		),
		table.timed &&
			addList("add-thread", "Thread…", threadList(table, state), t =>
				page.set({threads: [...new Set([...state.threads, t])]}),
			),
		(table.cpus > 1 &&
			addList(
				"add-cpu",
				"CPU…",
				Array.from({length: table.cpus}, (_, i) => [String(i), "CPU " + i]),
				c => page.set({cpus: [...new Set([...state.cpus, Number(c)])]}),
			)) ||
			"",
		toggle("merge", "Merge recursion", state.merge, () => page.set({merge: !state.merge, zoom: 0})),
		table.hasIdle ? toggle("idle", "Show idle", state.showIdle, switchIdle) : "",
		...chips,
		chips.length + (state.filter ? 1 : 0) > 1 ? el("button", {class: "link", onclick: clearFilters}, "Remove all") : "",
	);
	if (focused) byID(focused)?.focus();
}

function switchIdle() {
	if (page.table.hasIdle) page.set({showIdle: !page.state.showIdle});
}

function clearFilters() {
	page.set({filter: "", range: null, processes: [], threads: [], cpus: [], focus: [], hide: [], fields: [], zoom: 0});
}

// filterInput is the field of the filter's expression.
function filterInput(state) {
	return el("input", {
		"id": "filter",
		"type": "search",
		"value": state.filter,
		"placeholder": "Filter: dport == 53 && len > 1k",
		"aria-label": "Filter: show only samples that match an expression",
		"autocomplete": "off",
		"spellcheck": "false",
		"onchange": e => page.set({filter: e.target.value.trim(), zoom: 0}),
	});
}

function toggle(id, text, on, change) {
	return el("button", {"id": "toggle-" + id, "class": "toggle", "aria-pressed": String(on), "onclick": change}, text);
}

function addList(id, text, options, add) {
	return el(
		"select",
		{
			id,
			"aria-label": "Show only: " + text.replace("…", ""),
			"onchange": e => e.target.value && add(e.target.value),
		},
		el("option", {value: ""}, text),
		options.map(([v, t]) => el("option", {value: v}, t)),
	);
}

const processName = (table, key) => {
	const i = table.threads.pid.findIndex((_, i) => processKey(table, i) === key);
	return i < 0 ? key : processOf(table, i);
};
const processOf = ({threads}, i) => threads.process[i] + (threads.pid[i] < 0 ? "" : " " + threads.pid[i]);
const threadName = (table, i) => table.threads.comm[i] + " " + table.threads.tid[i];

// threadLabel returns the name of a thread by its key: of its names that with most weight.
function threadLabel(table, key) {
	return threadLabels(table).get(key)?.name || key;
}

function threadLabels(table) {
	if (table.threadLabels) return table.threadLabels;
	const of = new Map();
	threadWeights(table).forEach((w, i) => {
		const key = threadKey(table, i),
			t = of.get(key);
		if (!t) of.set(key, {weight: w, most: w, name: threadName(table, i), process: processKey(table, i)});
		else {
			t.weight += w;
			if (w > t.most) ((t.most = w), (t.name = threadName(table, i)));
		}
	});
	return (table.threadLabels = of);
}

// weights returns the weight of each thread, without filters.
function threadWeights(table) {
	if (table.threadWeights) return table.threadWeights;
	const weights = new Float64Array(table.threads.tid.length);
	for (let i = 0; i < table.length; i++) weights[table.thread[i]] += table.weight[i];
	return (table.threadWeights = weights);
}

// processList returns the processes with most weight, for a list.
function processList(table) {
	if (table.processList) return table.processList;
	const of = new Map();
	threadWeights(table).forEach((w, i) => {
		const key = processKey(table, i),
			p = of.get(key) || {w: 0, name: processOf(table, i)};
		p.w += w;
		of.set(key, p);
	});
	return (table.processList = [...of]
		.sort((a, b) => b[1].w - a[1].w)
		.slice(0, 300)
		.map(([key, p]) => [key, p.name]));
}

function threadList(table, state) {
	const chosen = new Set(state.processes);
	return [...threadLabels(table)]
		.filter(([, t]) => t.weight && (!chosen.size || chosen.has(t.process)))
		.sort((a, b) => b[1].weight - a[1].weight)
		.slice(0, 300)
		.map(([key, t]) => [key, t.name]);
}

function showStatus() {
	const {counted, table, state} = page,
		all = counted.all;
	byID("sum").textContent =
		`${(all.count || 0).toLocaleString("en")} of ${table.allSamples.toLocaleString("en")} samples` +
		(state.metric === "weight" && all.self ? ", " + formatWeight(all.self, page.unit()) : "") +
		(counted.idle ? `; idle is hidden: ${formatShare(counted.idle, counted.idle + all.self)} of all` : "") +
		(table.hasBaseline ? `; the baseline is scaled by ${digits(counted.scale)}` : "");
	let found = "";
	const matched = page.matches();
	if (matched) {
		const has = new Uint8Array(page.tree.length);
		let sum = 0;
		for (let i = 1; i < page.tree.length; i++) {
			const up = has[page.tree.parent[i]];
			has[i] = up | matched[page.tree.fn[i]];
			if (has[i] && !up) sum += counted.total[i];
		}
		found = formatShare(sum, all.self) + " match “" + state.search + "”";
	}
	byID("found").textContent = found;
}

// Controls.

function connect() {
	byID("event").addEventListener("change", e => page.set({event: e.target.value, zoom: 0}));
	byID("metric").addEventListener("change", e => page.set({metric: e.target.value}));
	const search = byID("search");
	search.addEventListener("input", () => page.set({search: search.value}, true));
	search.addEventListener("keydown", e => {
		if (e.key === "Escape") search.value ? page.set({search: (search.value = "")}) : search.blur();
		else if (e.key === "Enter" && search.value) page.set({view: "functions"}, true);
		else return;
		e.preventDefault();
	});
	byID("theme").addEventListener("click", switchTheme);
	byID("about-button").addEventListener("click", showAbout);
	byID("tabs").addEventListener("keydown", e => {
		const tabs = [...byID("tabs").querySelectorAll("[role=tab]")],
			at = tabs.indexOf(document.activeElement);
		const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1}[e.key];
		if (to === undefined) return;
		e.preventDefault();
		e.stopPropagation();
		tabs[(to + tabs.length) % tabs.length].click();
	});
	addEventListener("popstate", () => {
		page.state = withEvent(fromHash(location.hash));
		page.update();
	});
	addEventListener("resize", () => {
		page.filtered = "";
		page.later();
	});
	addEventListener("keydown", pressed);
	addEventListener("pointerdown", e => e.target.closest("#tip, canvas") || hideTip());
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.later());
}

const keys = [
	["1 … 6", "the views"],
	["/", "search"],
	["s", "choose samples: gperf help filter has the expressions"],
	["e", "the next event"],
	["m", "periods or samples"],
	["d", "dark or light"],
	["r", "merge recursion"],
	["i", "show idle CPUs and threads, or hide them"],
	["t", "select time: arrow keys, + and −"],
	["c", "remove all filters"],
	["g", "back to the flame graph’s root"],
	["v", "into the view"],
	["arrow keys, Enter", "in views: move, zoom or open"],
	["n, N", "in flame graphs: the next and the previous match of the search"],
	["f, x, o", "in flame graphs and call trees: focus, hide, open"],
	["Escape", "zoom out, close"],
	["?", "this help"],
];

function pressed(e) {
	if (e.ctrlKey || e.altKey || e.metaKey || byID("about").open || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName))
		return;
	const {state} = page;
	const act = {
		"/": () => byID("search").focus(),
		"s": () => byID("filter")?.focus(),
		"?": showAbout,
		"d": switchTheme,
		"e": nextEvent,
		"v": enterView,
		"m": () => page.set({metric: state.metric === "weight" ? "samples" : "weight"}),
		"r": () => page.set({merge: !state.merge, zoom: 0}),
		"i": switchIdle,
		"t": () => byID("overview-canvas").focus(),
		"c": clearFilters,
		"g": () => page.set({view: "flame", zoom: 0}),
		"Escape": hideTip,
	}[e.key];
	const number = Number(e.key) - 1;
	const tab = byID("tabs").querySelectorAll("[role=tab]")[number];
	if (!act && !tab) return;
	e.preventDefault();
	if (act) act();
	else {
		tab.click();
		enterView();
	}
}

// enterView moves the keyboard's focus into the view.
function enterView() {
	const into = byID("panel").querySelector("canvas[tabindex='0'], tbody [tabindex='0'], .rows button, tbody button");
	(into || byID("panel")).focus();
}

function nextEvent() {
	const list = [...byID("event").options],
		at = list.findIndex(o => o.value === page.state.event);
	page.set({event: list[(at + 1) % list.length].value, zoom: 0});
	say("event " + page.state.event);
}

function switchTheme() {
	document.documentElement.dataset.theme = isDark() ? "light" : "dark";
	try {
		localStorage.setItem("theme", document.documentElement.dataset.theme);
	} catch {
		// a file may have no storage
	}
	page.update();
}

function showAbout() {
	const {table} = page,
		dialog = byID("about");
	fill(
		dialog,
		el("h2", {id: "about-title"}, "Help"),
		el("h3", {}, "Keys"),
		el("dl", {class: "keys"}, keys.map(([k, what]) => [el("dt", {}, k), el("dd", {}, what)]).flat()),
		el(
			"p",
			{},
			"Search: a part of the name; =NAME is the whole name, /EXPRESSION/ a regular expression. " +
				"The address of this page holds the view.",
		),
		el("h3", {}, table.recordings.length > 1 ? "Recordings" : "Recording"),
		table.recordings.map(r =>
			el(
				"ul",
				{},
				el("li", {}, [r.baseline && "baseline", r.path].filter(Boolean).join(": ") || "all recordings"),
				r.cmdline && el("li", {}, r.cmdline),
				table.timed && el("li", {}, r.samples.toLocaleString("en") + " samples in " + formatTime(r.lasts)),
				(r.about || []).map(line => el("li", {}, line)),
			),
		),
		isServed && el("p", {}, el("a", {href: "pprof/"}, "The pages of pprof for this recording")),
		el("form", {method: "dialog"}, el("button", {autofocus: true}, "Close")),
	);
	dialog.showModal();
}

// Start.

function useTable(table) {
	const zoomed = page.tree && page.state.zoom ? pathOf(page.tree, page.state.zoom) : null;
	page.table = table;
	if (zoomed) {
		page.makeTree();
		page.state.zoom = nodeAt(page.tree, zoomed);
	}
	const names = table.events.map(e => e.name).filter((name, i) => isUsed(table, i));
	const times =
		table.events.some(e => e.kind === "wait") &&
		table.events.some(e => e.kind === "cpu" && e.unit === "nanoseconds");
	fill(
		byID("event"),
		...names.concat(times ? [bothTimes] : []).map(name => el("option", {value: name}, name)),
	);
	byID("live").hidden = !table.live;
	byID("title").textContent = table.title;
}

// pathOf returns the functions from the root to a tree node.
function pathOf(tree, node) {
	const path = [];
	for (; node > 0; node = tree.parent[node]) path.unshift(tree.fn[node]);
	return path;
}

// nodeAt returns the tree node of a path, or the root.
function nodeAt(tree, path) {
	let at = 0;
	for (const fn of path) {
		at = [...tree.children.subarray(tree.childStart[at], tree.childStart[at + 1])].find(c => tree.fn[c] === fn);
		if (at === undefined) return 0;
	}
	return at;
}

// isUsed reports whether an event has samples.
function isUsed(table, event) {
	table.used ||= (() => {
		const used = new Uint8Array(table.events.length);
		for (let i = 0; i < table.length; i++) used[table.event[i]] = 1;
		return used;
	})();
	return table.used[event];
}

// withEvent chooses an event if the state has none of this recording.
function withEvent(state) {
	const options = [...byID("event").options].map(o => o.value);
	if (!options.includes(state.event)) state.event = options[0] || "";
	return state;
}

// follow shows new tables and messages of the server.
async function follow() {
	let notices = 0;
	for (let version = page.table.version; ;) {
		let now;
		try {
			now = await (await fetch(`changes?version=${version}&notices=${notices}`)).json();
		} catch {
			notice("gperf view has ended: the page keeps the samples, but shows no more source files.");
			return;
		}
		for (const text of (now.notices || []).slice(notices)) notice(text);
		notices = (now.notices || []).length;
		if (now.version !== version) {
			useTable(decodeBlock(await fetchBlock()));
			page.state = withEvent(page.state);
			version = page.table.version;
			page.later();
			await new Promise(done => setTimeout(done, 300));
		}
	}
}

function notice(text) {
	byID("notices").append(
		el(
			"div",
			{class: "notice"},
			text,
			el("button", {"aria-label": "Close the message", "onclick": e => e.target.parentElement.remove()}, "×"),
		),
	);
}

async function start() {
	try {
		const theme = localStorage.getItem("theme");
		if (theme) document.documentElement.dataset.theme = theme;
	} catch {
		// a file may have no storage
	}
	try {
		useTable(decodeBlock(await fetchBlock()));
	} catch (error) {
		fill(byID("panel"), el("p", {class: "empty"}, "The samples cannot be read: " + error.message));
		return;
	}
	page.state = withEvent(fromHash(location.hash));
	connect();
	page.update();
	document.documentElement.dataset.ready = "true";
	performance.measure("ready", {start: 0});
	if (isServed) follow();
}

start();
