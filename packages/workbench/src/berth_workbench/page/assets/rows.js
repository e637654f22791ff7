// A table of which the first rows are shown: with a search and more rows where there are more, and an order by any column.
// A cell is a text, a number, or {text, href, share, tone, behind, names}: a link, a share as a bar, what stands behind a click.
// Rows come with the page; of a large table (`src`) the `first` do, and the server searches, sorts and gives more of them,
// and the same ones again every `refreshS` seconds. On narrow screens each row is a card.

import { fetched, number, percent } from "/assets/numbers.js";

const MORE = 50;
const textOf = (cell) => (cell !== null && typeof cell === "object" ? (cell.text ?? (cell.share === undefined ? "" : percent(cell.share))) : typeof cell === "number" ? number(cell) : String(cell ?? ""));
const valueOf = (cell) => (cell !== null && typeof cell === "object" ? (cell.share ?? cell.value ?? cell.text) : cell);

export default {
  props: { caption: String, columns: Array, rows: Array, first: Object, src: String, refreshS: Number, shown: Number, find: String, order: Number, none: String },
  data() {
    return { wanted: this.find || "", count: this.shown || 10, by: this.order ?? -1, isDown: true, part: this.first, loads: 0, problem: "" };
  },
  mounted() {
    if (this.src && this.refreshS > 0) this.timer = setInterval(() => document.hidden || this.load(), this.refreshS * 1000);
  },
  unmounted() {
    clearInterval(this.timer);
  },
  computed: {
    matching() {
      const words = this.wanted.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const all = this.rows || [], hits = words.length ? all.filter((row) => { const text = row.map((cell) => `${textOf(cell)} ${cell?.behind || ""} ${cell?.find || ""}`).join(" ").toLowerCase(); return words.every((word) => text.includes(word)); }) : all;
      if (this.by < 0) return hits;
      const sign = this.isDown ? -1 : 1;
      return [...hits].sort((a, b) => {
        const [one, other] = [valueOf(a[this.by]), valueOf(b[this.by])];
        return sign * (typeof one === "number" && typeof other === "number" ? one - other : typeof one === "number" ? 1 : typeof other === "number" ? -1 : String(one ?? "").localeCompare(String(other ?? ""), "en", { numeric: true }));
      });
    },
  },
  methods: {
    async load() {
      if (!this.src) return;
      const wish = { find: this.wanted, down: this.isDown, count: this.count, ...(this.by < 0 ? {} : { by: this.by }) }, load = ++this.loads;
      const [part, problem] = await fetched(`${this.src}?${new URLSearchParams(wish)}`);
      if (load !== this.loads) return; // something else is wanted by now
      this.problem = problem && `${problem} This shows an earlier state.`;
      if (part) this.part = part;
    },
    search(text) {
      this.wanted = text;
      this.count = this.shown || 10;
      this.load();
    },
    more() {
      this.count += MORE;
      this.load();
    },
    sort(at) {
      this.isDown = this.by === at ? !this.isDown : this.columns[at].kind === "number";
      this.by = at;
      this.load();
    },
    inside(cell) {
      const h = Vue.h;
      if (cell === null || typeof cell !== "object") return textOf(cell);
      if (cell.behind) return h("details", [h("summary", cell.text), h("p", { class: "behind" }, cell.behind)]);
      if (cell.share !== undefined)
        return [h("span", { class: cell.share > 1 ? "bar over" : "bar", "aria-hidden": "true" }, h("span", { style: { width: `${Math.min(1, cell.share || 0) * 100}%` } })), h("span", { class: cell.share > 1 ? "bad" : "" }, percent(cell.share))];
      const text = cell.href ? h("a", { href: cell.href }, cell.text) : h("span", { class: cell.tone || "" }, textOf(cell));
      return cell.badge ? [text, h("span", { class: "badge" }, cell.badge)] : text;
    },
  },
  render() {
    const h = Vue.h, { rows, matching, all } = this.src ? this.part : { rows: this.matching.slice(0, this.count), matching: this.matching.length, all: (this.rows || []).length };
    const many = all > (this.shown || 10), rest = matching - rows.length;
    if (!all) return h("p", { class: "empty" }, this.none || "There is nothing to show.");
    const heading = (column, at) => many
      ? h("button", { type: "button", class: "sort", onClick: () => this.sort(at) }, [column.heading, this.by === at ? h("span", { "aria-hidden": "true" }, this.isDown ? " ↓" : " ↑") : null])
      : column.heading;
    return h("div", { class: "rows" }, [
      this.problem ? h("p", { class: "problem", role: "alert" }, this.problem) : null,
      this.caption || many
        ? h("div", { class: "rows-head" }, [
            this.caption ? h("h2", this.caption) : null,
            many ? h("span", { class: "soft", role: "status" }, matching === all ? number(all) : `${number(matching)} of ${number(all)}`) : null,
            many ? h("input", { type: "search", "aria-label": `Find in ${this.caption || "this table"}`, placeholder: "Find", value: this.wanted, onInput: (event) => this.search(event.target.value) }) : null,
          ])
        : null,
      h("table", { role: "table", "aria-label": this.caption || this.columns[0].heading }, [
        h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, this.columns.map((column, at) => h("th", { role: "columnheader", scope: "col", class: column.kind, "aria-sort": this.by === at ? (this.isDown ? "descending" : "ascending") : undefined }, heading(column, at))))),
        h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row" }, row.map((cell, at) =>
          h(at ? "td" : "th", { role: at ? "cell" : "rowheader", scope: at ? undefined : "row", class: this.columns[at].kind, "data-label": this.columns[at].heading }, [h("div", this.inside(cell))]))))),
      ]),
      rest > 0 ? h("p", { class: "rows-end" }, [h("button", { type: "button", class: "plain", onClick: () => this.more() }, `Show ${number(Math.min(MORE, rest))} more`), h("span", { class: "soft" }, `${number(rest)} more rows`)]) : null,
      this.wanted && !rows.length ? h("p", { class: "soft" }, "No row has that in it.") : null,
    ]);
  },
};
