// Names of functions: the name itself comes first, and arguments of templates are cropped.

const nameCache = new Map();

// nameParts splits a function's name: {base, scope}. The base is the name without scope, parameters, return type and
// arguments of templates: for "void std::vector<int>::push_back(int&&)", base is "push_back" and scope
// "std::vector<…>".
function nameParts(full) {
	let parts = nameCache.get(full);
	if (!parts) {
		parts = splitName(full);
		nameCache.set(full, parts);
	}
	return parts;
}

function splitName(full) {
	if (full[0] === "[" || !/[:(<[/]/.test(full)) return {base: full, scope: ""};
	if (!full.includes("::") && /^[\w.\-~%]+(\/[\w.\-~%]+)*\./.test(full) && full.includes("/")) return splitGo(full);
	const parts = componentsOf(full).map(crop);
	// The function of a lambda is named by the lambda, and this by the function around it.
	if (parts.length > 1 && parts.at(-1).startsWith("operator()") && isLambda(parts.at(-2))) parts.pop();
	let n = 1;
	while (n < parts.length && isLambda(parts.at(-n))) n++;
	const base = parts.slice(-n).join("::");
	return /\w/.test(base) ? {base, scope: parts.slice(0, -n).join("::")} : {base: full, scope: ""};
}

const isLambda = part => /^(<lambda|\{lambda|'lambda|\{\{?closure|\(lambda)/.test(part);

// splitGo splits a name of Go: "net/http.(*conn).serve" has the base "http.(*conn).serve".
function splitGo(full) {
	const bracket = full.indexOf("[");
	const slash = full.lastIndexOf("/", bracket < 0 ? full.length : bracket);
	let base = full.slice(slash + 1);
	if (base.includes("[")) base = base.slice(0, base.indexOf("[")) + "[…]" + base.slice(base.lastIndexOf("]") + 1);
	return {base, scope: full.slice(0, slash)};
}

// operatorName is the name of an operator of C++, with the blank between it and its template arguments.
const operatorName =
	/^operator(\(\)|\[\]|->\*?|<=>|<<=?|>>=?|&&|\|\||\+\+|--|[-+*/%^&|~!=<>,]=?|""\s?\w+|\s(new|delete)\b(\[\])?|\s[^(]+)\s*/;

// afterParameters is what may follow the parameters of a function that has no return type after it.
const afterParameters = /^\s*(const|volatile|noexcept|&&?|\[|@|\.|$)/;

// componentsOf returns the parts of a name of C++ or Rust between "::", without return type and parameters:
// "int a::f(int) const::{lambda()#1}::operator()() const" has a, f, {lambda()#1} and operator().
function componentsOf(full) {
	let parts = [],
		depth = 0,
		start = 0, // of the part
		end = -1; // of the part, where its parameters begin
	for (let i = 0; i < full.length; i++) {
		const c = full[i];
		const symbol = depth === 0 && end < 0 ? operatorAt(full, i) : 0;
		if (symbol) {
			i += symbol - 1;
		} else if (c === "(" && depth === 0 && end < 0 && i > start) {
			end = i;
			depth++;
		} else if (/[<([{]/.test(c)) {
			depth++;
		} else if (/[>)\]}]/.test(c)) {
			if (c !== ">" || full[i - 1] !== "-") depth = Math.max(0, depth - 1);
		} else if (depth === 0 && c === ":" && full[i + 1] === ":") {
			parts.push(full.slice(start, end < 0 ? i : end));
			start = ++i + 1;
			end = -1;
		} else if (depth === 0 && c === " ") {
			if (end < 0 && full[i + 1] === "[") end = i; // " [clone .cold]"
			if (afterParameters.test(full.slice(i, i + 12)) && end >= 0) continue;
			// the end of a return type
			parts = [];
			start = i + 1;
			end = -1;
		}
	}
	parts.push(full.slice(start, end < 0 ? full.length : end));
	return parts;
}

// operatorAt returns the length of the name of an operator at a place of a name, 0 if there is none.
function operatorAt(s, i) {
	if (s[i] !== "o" || /\w/.test(s[i - 1] || "")) return 0;
	return operatorName.exec(s.slice(i, i + 60))?.[0].length || 0;
}

// crop replaces the arguments of templates and lambdas with an ellipsis.
function crop(s) {
	let out = "",
		depth = 0;
	for (let i = 0; i < s.length; i++) {
		const c = s[i],
			symbol = depth === 0 ? operatorAt(s, i) : 0;
		if (symbol) {
			out += s.slice(i, i + symbol);
			i += symbol - 1;
		} else if (depth === 0 && c === "<" && i > 0) {
			out += "<…>";
			depth++;
		} else if (depth === 0 && c === "(" && isLambda(s)) {
			out += "…";
			depth++;
		} else if (depth === 0) {
			out += c;
		} else if (/[<([{]/.test(c)) {
			depth++;
		} else if (/[>)\]}]/.test(c) && (c !== ">" || s[i - 1] !== "-")) {
			depth--;
		}
	}
	return out;
}

// hueOf returns a hue for a text, always the same one.
function hueOf(text) {
	let h = 2166136261;
	for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
	return (h >>> 0) % 360;
}

// matcher returns a function that reports whether a name matches a pattern: "=name" is the whole name, "/…/" a
// regular expression, and others a part of the name in any case.
function matcher(pattern) {
	if (pattern[0] === "=") return name => name === pattern.slice(1);
	const words = /^\/(.+)\/$/.exec(pattern);
	if (words) {
		try {
			const expression = new RegExp(words[1], "i");
			return name => expression.test(name);
		} catch {
			// it is not finished yet
		}
	}
	const part = pattern.toLowerCase();
	return name => name.toLowerCase().includes(part);
}

const nsUnits = [
	[1, "ns"],
	[1e3, "µs"],
	[1e6, "ms"],
	[1e9, "s"],
];

// formatWeight returns a number of a unit as text: "1.25 s", "3.4 M".
function formatWeight(n, unit) {
	if (unit === "nanoseconds") return formatTime(n);
	if (Math.abs(n) < 10000) return String(Math.round(n));
	for (const [size, name] of [
		[1e12, "T"],
		[1e9, "G"],
		[1e6, "M"],
		[1e3, "k"],
	]) {
		if (Math.abs(n) >= size) return digits(n / size) + " " + name;
	}
	return String(n);
}

function formatTime(ns) {
	if (ns === 0) return "0";
	let [size, name] = nsUnits[0];
	for (const unit of nsUnits) if (Math.abs(ns) >= unit[0]) [size, name] = unit;
	return digits(ns / size) + " " + name;
}

function digits(n) {
	return Math.abs(n) >= 100 ? n.toFixed(0) : Math.abs(n) >= 10 ? n.toFixed(1) : n.toFixed(2);
}

function formatShare(part, all) {
	if (!all) return "–";
	const percent = (100 * part) / all;
	return percent !== 0 && Math.abs(percent) < 0.01 ? "<0.01 %" : percent.toFixed(percent >= 99.995 ? 0 : 2) + " %";
}
