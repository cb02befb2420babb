const host = globalThis.__weir;

// Elements of a page, as jQuery has them.
export class Selection {
  constructor(page, nodes, url) {
    Object.defineProperty(this, "_", { value: { page, nodes, url: url ?? "" } });
  }
  _of(nodes) {
    return new Selection(this._.page, nodes, this._.url);
  }
  _moved(way, filter) {
    const found = [];
    for (const node of this._.nodes) for (const one of host.htmlMove(this._.page, node, way)) if (!found.includes(one)) found.push(one);
    const made = this._of(found);
    return filter === undefined ? made : made.filter(filter);
  }
  _tell(what, name) {
    return this._.nodes.length === 0 ? undefined : host.htmlTell(this._.page, this._.nodes[0], what, name ?? "");
  }
  find(selector) {
    return this._of(host.htmlFind(this._.page, this._.nodes, String(selector)));
  }
  filter(by) {
    if (typeof by === "function") return this._of(this._.nodes.filter((node, index) => by(index, this._element(node))));
    if (by instanceof Selection) return this._of(this._.nodes.filter((node) => by._.nodes.includes(node)));
    return this._of(host.htmlFilter(this._.page, this._.nodes, String(by)));
  }
  not(by) {
    const out = this.filter(by)._.nodes;
    return this._of(this._.nodes.filter((node) => !out.includes(node)));
  }
  is(by) {
    return this.filter(by).size() > 0;
  }
  has(selector) {
    return this._of(this._.nodes.filter((node) => host.htmlFind(this._.page, [node], String(selector)).length > 0));
  }
  children(filter) {
    return this._moved("children", filter);
  }
  contents() {
    return this._moved("contents");
  }
  parent(filter) {
    return this._moved("parent", filter);
  }
  parents(filter) {
    return this._moved("parents", filter);
  }
  closest(selector) {
    for (const node of this._.nodes) {
      const up = [node, ...host.htmlMove(this._.page, node, "parents")];
      const found = host.htmlFilter(this._.page, up, String(selector));
      if (found.length > 0) return this._of([found[0]]);
    }
    return this._of([]);
  }
  next(filter) {
    return this._moved("next", filter);
  }
  nextAll(filter) {
    return this._moved("nextAll", filter);
  }
  prev(filter) {
    return this._moved("prev", filter);
  }
  prevAll(filter) {
    return this._moved("prevAll", filter);
  }
  siblings(filter) {
    return this._moved("siblings", filter);
  }
  first() {
    return this._of(this._.nodes.slice(0, 1));
  }
  last() {
    return this._of(this._.nodes.slice(-1));
  }
  eq(index) {
    const node = this._.nodes.at(index);
    return this._of(node === undefined ? [] : [node]);
  }
  slice(from, to) {
    return this._of(this._.nodes.slice(from, to));
  }
  size() {
    return this._.nodes.length;
  }
  get length() {
    return this._.nodes.length;
  }
  get(index) {
    if (index === undefined) return this.toArray();
    const node = this._.nodes.at(index);
    return node === undefined ? undefined : this._element(node);
  }
  index() {
    return this.size() === 0 ? -1 : host.htmlMove(this._.page, this._.nodes[0], "prevAll").length;
  }
  toArray() {
    return this._.nodes.map((node) => this._element(node));
  }
  each(call) {
    this._.nodes.forEach((node, index) => call(index, this._element(node)));
    return this;
  }
  map(call) {
    return this._.nodes.map((node, index) => call(index, this._of([node])));
  }
  _element(node) {
    return new Element(this._.page, [node], this._.url);
  }
  attr(name, fallback) {
    return this._tell("attr", String(name)) ?? fallback;
  }
  text() {
    return this._.nodes.map((node) => host.htmlTell(this._.page, node, "text", "")).join("");
  }
  html(fallback) {
    return this._tell("html") ?? fallback;
  }
  val() {
    if (this.size() === 0) return undefined;
    switch (this._tell("name")) {
      case "textarea":
        return this.text();
      case "button":
      case "input":
        return this.attr("value") ?? (["checkbox", "radio"].includes(this.attr("type")) ? "on" : this._tell("name") === "input" ? "" : undefined);
      case "select": {
        const chosen = this.find("option[selected]");
        const value = (option) => option.attr("value") ?? option.text();
        if (this.attr("multiple") !== undefined) return chosen.map((_, option) => value(option));
        const one = chosen.size() > 0 ? chosen.last() : this.find("option").first();
        return one.size() === 0 ? undefined : value(one);
      }
      case "option":
        return this.attr("value") ?? this.text();
      default:
        return undefined;
    }
  }
  data(name) {
    if (name === undefined) {
      const all = {};
      for (const [key] of this.size() === 0 ? [] : host.htmlAttributes(this._.page, this._.nodes[0]))
        if (key.startsWith("data-")) all[camel(key.slice(5))] = this.data(key.slice(5));
      return all;
    }
    const text = this.attr(`data-${String(name).replace(/[A-Z]/g, (sign) => "-" + sign.toLowerCase())}`);
    if (text === undefined) return undefined;
    try {
      return JSON.parse(text);
    } catch (_) {
      return text;
    }
  }
  serializeArray() {
    const fields = [];
    const inputs = this.is("form") ? this.find("input, select, textarea, button") : this;
    inputs.each((_, input) => {
      const [name, kind] = [input.attr("name"), (input.attr("type") ?? "").toLowerCase()];
      const isTick = kind === "checkbox" || kind === "radio";
      if (!name || input.attr("disabled") !== undefined || ["submit", "button", "reset", "image", "file"].includes(kind)) return;
      if (input._tell("name") === "button" || (isTick && input.attr("checked") === undefined)) return;
      const value = input.val();
      for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) fields.push({ name, value: one });
    });
    return fields;
  }
  serializeObject() {
    const all = {};
    for (const { name, value } of this.serializeArray()) all[name] = value;
    return all;
  }
  serialize() {
    return this.serializeArray().map(({ name, value }) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");
  }
}

const camel = (name) => name.replace(/-([a-z])/g, (_, sign) => sign.toUpperCase());

// One element, with the names that the DOM has.
export class Element extends Selection {
  nodeName() {
    return (this._tell("name") ?? `#${this._tell("kind")}`).toUpperCase();
  }
  nodeType() {
    return { element: 1, text: 3, comment: 8, document: 9 }[this._tell("kind")];
  }
  nodeValue() {
    return this._tell("kind") === "text" ? this.text() : undefined;
  }
  textContent() {
    return this.text();
  }
  innerHTML() {
    return this.html();
  }
  id() {
    return this.attr("id") ?? "";
  }
  className() {
    return this.attr("class") ?? "";
  }
  name() {
    return this.attr("name") ?? "";
  }
  value() {
    return this.val() ?? "";
  }
  href() {
    return this.attr("href") ?? "";
  }
  getAttribute(name) {
    return this.attr(name);
  }
  hasAttribute(name) {
    return this.attr(name) !== undefined;
  }
  selection() {
    return this._of(this._.nodes);
  }
}

export function parseHTML(text, url) {
  return new Selection(host.htmlParse(String(text)), [0], url);
}

export default { parseHTML, Selection, Element };
