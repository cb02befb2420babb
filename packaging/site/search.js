// Searches the pages by an index that lies beside them; nothing is asked of another host.
// The index has `sections`: [page, heading's id, title, first words], and `words`: a sorted list of
// [word, section, weight, section, weight, ...].
"use strict";
(() => {
	const field = document.getElementById("search"), list = document.getElementById("found");
	const base = document.documentElement.dataset.base, MOST = 20, KEPT_CHARS = 80;
	let asked = false;

	// The index is fetched when the field is first used: a page alone needs none of it.
	function fetchIndex() {
		if (asked) return;
		asked = true;
		const script = document.createElement("script");
		script.src = base + "search-index.js";
		script.addEventListener("load", search);
		script.addEventListener("error", () => say("The index of the search could not be read."));
		document.head.append(script);
	}

	function say(text) {
		const line = document.createElement("li");
		line.textContent = text;
		list.replaceChildren(line);
	}

	// The first of the sorted words that is not before `word`.
	function place(words, word) {
		let low = 0, high = words.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (words[middle][0] < word) low = middle + 1; else high = middle;
		}
		return low;
	}

	// Sections with words that begin with `word`, and how well each fits; the whole word counts more.
	function sectionsOf(words, word) {
		const found = new Map();
		for (let at = place(words, word); at < words.length && words[at][0].startsWith(word); at++) {
			const entry = words[at], factor = entry[0] === word ? 3 : 1;
			for (let n = 1; n < entry.length; n += 2)
				found.set(entry[n], Math.max(found.get(entry[n]) || 0, entry[n + 1] * factor));
		}
		return found;
	}

	function search() {
		const index = window.weirIndex, text = field.value.toLowerCase().slice(0, KEPT_CHARS);
		const asked = text.match(/[\p{L}\p{N}_]+/gu) || [];
		list.replaceChildren();
		if (!index || !asked.length) return;
		let scores = null;
		for (const word of asked) {
			const found = sectionsOf(index.words, word);
			scores = scores ? new Map([...scores].filter(([one]) => found.has(one)).map(([one, score]) => [one, score + found.get(one)])) : found;
		}
		const best = [...scores].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, MOST);
		if (!best.length) return say("No page has these words.");
		list.append(...best.map(([one]) => line(index.sections[one])));
	}

	function line([page, id, title, words]) {
		const item = document.createElement("li"), link = document.createElement("a"), first = document.createElement("p");
		link.href = base + page + (id ? "#" + id : "");
		link.textContent = title;
		first.textContent = words;
		item.append(link, first);
		return item;
	}

	// A link to what a search finds: index.html?q=locks
	const linked = new URLSearchParams(location.search).get("q");
	if (linked) { field.value = linked; fetchIndex(); }
	field.addEventListener("focus", fetchIndex);
	field.addEventListener("input", () => { fetchIndex(); search(); });
	document.addEventListener("keydown", (event) => {
		if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
		if (event.key === "Escape" && document.activeElement === field) { field.value = ""; search(); field.blur(); }
	});
})();
