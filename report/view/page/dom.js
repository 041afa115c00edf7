// Elements. Names of the recording become text nodes and attributes of known names, never markup.

// el makes an element: el("button", {class: "x", onclick: f}, "text", child, …).
function el(tag, attributes, ...children) {
	const e = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes || {})) {
		if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
		else if (name === "style") for (const [property, v] of Object.entries(value)) e.style.setProperty(property, v);
		else if (value === true) e.setAttribute(name, "");
		else if (value !== false && value !== null && value !== undefined) e.setAttribute(name, String(value));
	}
	return fill(e, ...children);
}

// fill gives an element other content: elements, texts and lists of them; null, undefined and false are nothing.
function fill(e, ...children) {
	e.replaceChildren(...children.flat(Infinity).filter(c => c !== null && c !== undefined && c !== false));
	return e;
}

const byID = id => document.getElementById(id);

// nameElement shows a function: its name first, then its scope; the title has the whole.
function nameElement(full, extra) {
	const {base, scope} = nameParts(full);
	return el(
		"span",
		{class: "name", title: full},
		el("b", {}, base),
		scope && el("span", {class: "scope"}, " " + scope),
		extra,
	);
}

// say makes screen readers say a text.
function say(text) {
	byID("say").textContent = text;
}

// bar is a share as a number with a bar after it.
function shareCell(part, all, kind) {
	const share = all ? Math.max(0, Math.min(1, part / all)) : 0;
	return el(
		"td",
		{class: "share"},
		el("span", {class: "bar " + (kind || ""), style: {width: (100 * share).toFixed(2) + "%"}}),
		el("span", {class: "number"}, formatShare(part, all)),
	);
}

function changeText(change, all) {
	if (!all) return "–";
	const points = (100 * change) / all;
	return (points > 0 ? "+" : points < 0 ? "−" : "±") + Math.abs(points).toFixed(2) + " %";
}

// Tips.

function showTip(x, y, ...content) {
	const tip = byID("tip");
	fill(tip, content);
	tip.hidden = false;
	const box = tip.getBoundingClientRect(),
		space = 12;
	let left = x + space,
		top = y + space;
	if (left + box.width > innerWidth - 4) left = Math.max(4, x - box.width - space);
	if (top + box.height > innerHeight - 4) top = Math.max(4, y - box.height - space);
	tip.style.left = left + "px";
	tip.style.top = top + "px";
}

function hideTip() {
	byID("tip").hidden = true;
}

// fitCanvas gives a canvas the resolution of the screen, and returns its context.
function fitCanvas(canvas, width, height) {
	const scale = devicePixelRatio || 1;
	canvas.width = Math.max(1, Math.round(width * scale));
	canvas.height = Math.max(1, Math.round(height * scale));
	canvas.style.width = width + "px";
	canvas.style.height = height + "px";
	const c = canvas.getContext("2d");
	c.setTransform(scale, 0, 0, scale, 0, 0);
	return c;
}

// colour returns a colour of the style sheet.
function colour(name) {
	return getComputedStyle(document.documentElement)
		.getPropertyValue("--" + name)
		.trim();
}
const isDark = () => getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";
