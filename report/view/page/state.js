// The state of the page, which the address holds after "#".

const emptyState = {
	view: "flame",
	event: "",
	metric: "weight",
	range: null,
	processes: [],
	threads: [],
	cpus: [],
	focus: [],
	hide: [],
	fields: [],
	showIdle: false,
	merge: false,
	search: "",
	filter: "",
	fn: "",
	dso: "", // of fn; "": any
	zoom: 0,
	order: "heavy",
	flip: false,
	before: false,
	colour: "",
	sort: "self",
	down: true,
	part: "callers",
	row: "processes",
	shown: null,
};

// Members of the state that are lists of texts, and how they are written in the address.
const listNames = ["processes", "threads", "focus", "hide"];

// toHash returns the address's part for a state.
function toHash(state) {
	const p = new URLSearchParams();
	for (const [name, usual] of Object.entries(emptyState)) {
		const value = state[name];
		if (listNames.includes(name)) value.forEach(v => p.append(name, v));
		else if (name === "cpus") value.length && p.set(name, value.join(","));
		else if (name === "fields") value.forEach(f => p.append("field", f.key + "=" + f.value));
		else if (name === "range" || name === "shown") value && p.set(name, value.map(Math.round).join("-"));
		else if (value !== usual) p.set(name, String(value));
	}
	return "#" + p;
}

// fromHash returns the state of an address. What it does not understand has the usual value.
function fromHash(hash) {
	const p = new URLSearchParams(hash.replace(/^#/, "")),
		state = structuredClone(emptyState);
	for (const [name, value] of p) {
		if (listNames.includes(name)) state[name].push(value);
		else if (name === "cpus") state.cpus = value.split(",").map(Number).filter(Number.isInteger);
		else if (name === "field" && value.includes("=")) {
			const at = value.indexOf("=");
			state.fields.push({key: value.slice(0, at), value: value.slice(at + 1)});
		} else if (name === "range" || name === "shown") {
			const [from, to] = value.split("-").map(Number);
			if (from < to) state[name] = [from, to];
		} else if (typeof emptyState[name] === "boolean") state[name] = value === "true";
		else if (typeof emptyState[name] === "number") state[name] = Number(value) || 0;
		else if (typeof emptyState[name] === "string") state[name] = value;
	}
	return state;
}

// Parts of the state that select samples, apart from the time; and those that select how nodes are merged.
const filterNames = ["filter", "event", "metric", "processes", "threads", "cpus", "focus", "hide", "fields", "showIdle"];
function filterKey(state) {
	return JSON.stringify(filterNames.map(name => state[name]));
}
