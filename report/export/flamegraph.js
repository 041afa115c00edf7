"use strict";
// A flame graph's zoom, search and details. Frames are groups with the class f; data-x and data-w are where they begin
// and how wide they are, as parts of their event. For each event there is a group e.
const svg = document.documentElement;
const margin = 10, width = +svg.getAttribute("width") - 2 * margin, charWidth = 12 * 0.59;

function place(frame, x, w) {
	const rect = frame.querySelector("rect"), text = frame.querySelector("text");
	const name = frame.dataset.name, chars = Math.floor((w - 4) / charWidth);
	rect.setAttribute("x", margin + x);
	rect.setAttribute("width", w);
	text.setAttribute("x", margin + Math.max(x, 0) + 3);
	text.textContent = chars < 3 ? "" : chars >= name.length ? name : name.slice(0, chars - 2) + "..";
}

function zoom(to) {
	const event = to.closest(".e"), x0 = +to.dataset.x, w0 = +to.dataset.w, depth = +to.dataset.depth;
	for (const f of event.querySelectorAll(".f")) {
		const x = +f.dataset.x, w = +f.dataset.w, inside = x >= x0 - 1e-12 && x + w <= x0 + w0 + 1e-12;
		const below = +f.dataset.depth < depth && x <= x0 + 1e-12 && x + w >= x0 + w0 - 1e-12;
		f.style.display = inside && +f.dataset.depth >= depth || below ? "" : "none";
		f.style.opacity = below ? 0.5 : 1;
		if (below) place(f, 0, width);
		else if (inside) place(f, (x - x0) / w0 * width, w / w0 * width);
	}
	document.getElementById("reset").style.display = depth > 0 ? "" : "none";
}

function search(pattern) {
	let regexp = null;
	try {
		regexp = pattern ? new RegExp(pattern) : null;
	} catch (e) {
		alert(e.message);
		return;
	}
	for (const event of document.querySelectorAll(".e")) {
		let matched = 0, end = -1; // frames come with callers first, from left to right
		for (const f of event.querySelectorAll(".f")) {
			const found = regexp !== null && regexp.test(f.dataset.name);
			f.querySelector("rect").style.fill = found ? "rgb(230,0,230)" : "";
			if (found && +f.dataset.x >= end - 1e-12) {
				matched += +f.dataset.w;
				end = +f.dataset.x + +f.dataset.w;
			}
		}
		event.querySelector(".matched").textContent = regexp ? "Matched: " + (100 * matched).toFixed(2) + "%" : "";
	}
}

svg.addEventListener("mouseover", e => {
	const f = e.target.closest(".f");
	if (f) f.closest(".e").querySelector(".details").textContent = f.querySelector("title").textContent;
});
svg.addEventListener("click", e => {
	const f = e.target.closest(".f");
	if (f) zoom(f);
	else if (e.target.id === "reset") document.querySelectorAll(".e").forEach(g => zoom(g.querySelector(".f")));
	else if (e.target.id === "search") search(prompt("Search functions by a regular expression:", ""));
});
window.addEventListener("keydown", e => {
	if (e.key === "F3" || e.ctrlKey && e.key === "f") {
		e.preventDefault();
		search(prompt("Search functions by a regular expression:", ""));
	} else if (e.key === "Escape") {
		document.querySelectorAll(".e").forEach(g => zoom(g.querySelector(".f")));
	}
});
