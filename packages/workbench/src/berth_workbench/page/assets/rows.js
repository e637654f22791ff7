// A table of which the first rows are shown: with a search and more rows where there are more, and an order by any column.
// A cell is a text, a number, or {text, href, share, tone, behind, names}: a link, a share as a bar, what stands behind a click.
// Rows come with the page, or from `src`, again every `refreshS` seconds. On narrow screens each row is a card.

import { fetched, number, percent } from "/assets/numbers.js";

const MORE = 50;
const textOf = (cell) => (cell !== null && typeof cell === "object" ? (cell.text ?? (cell.share === undefined ? "" : percent(cell.share))) : typeof cell === "number" ? number(cell) : String(cell ?? ""));
const valueOf = (cell) => (cell !== null && typeof cell === "object" ? (cell.share ?? cell.value ?? cell.text) : cell);

export default {
  props: { caption: String, columns: Array, rows: Array, src: String, refreshS: Number, shown: Number, find: String, order: Number, none: String },
  data() {
    return { wanted: this.find || "", count: this.shown || 10, by: this.order ?? -1, isDown: true, fetchedRows: null, problem: "" };
  },
  async mounted() {
    if (!this.src) return;
    await this.load();
    if (this.refreshS > 0) this.timer = setInterval(() => document.hidden || this.load(), this.refreshS * 1000);
  },
  unmounted() {
    clearInterval(this.timer);
  },
  computed: {
    all() {
      return (this.src ? this.fetchedRows : this.rows) || [];
    },
    matching() {
      const words = this.wanted.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const hits = words.length ? this.all.filter((row) => { const text = row.map((cell) => `${textOf(cell)} ${cell?.behind || ""} ${cell?.find || ""}`).join(" ").toLowerCase(); return words.every((word) => text.includes(word)); }) : this.all;
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
      const [told, problem] = await fetched(this.src);
      this.problem = problem && this.fetchedRows ? `${problem} This shows an earlier state.` : problem;
      if (told) this.fetchedRows = told.rows;
      if (told) requestAnimationFrame(() => performance.mark("berth-rows-painted"));
    },
    sort(at) {
      this.isDown = this.by === at ? !this.isDown : this.columns[at].kind === "number";
      this.by = at;
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
    const h = Vue.h, many = this.all.length > (this.shown || 10), rows = this.matching.slice(0, this.count), rest = this.matching.length - rows.length;
    if (this.src && !this.fetchedRows) return h("p", { class: this.problem ? "problem" : "soft", role: "status" }, this.problem || "Loading…");
    if (!this.all.length) return h("p", { class: "empty" }, this.none || "There is nothing to show.");
    const heading = (column, at) => many
      ? h("button", { type: "button", class: "sort", onClick: () => this.sort(at) }, [column.heading, this.by === at ? h("span", { "aria-hidden": "true" }, this.isDown ? " ↓" : " ↑") : null])
      : column.heading;
    return h("div", { class: "rows" }, [
      this.problem ? h("p", { class: "problem", role: "alert" }, this.problem) : null,
      this.caption || many
        ? h("div", { class: "rows-head" }, [
            this.caption ? h("h2", this.caption) : null,
            many ? h("span", { class: "soft", role: "status" }, this.matching.length === this.all.length ? number(this.all.length) : `${number(this.matching.length)} of ${number(this.all.length)}`) : null,
            many ? h("input", { type: "search", "aria-label": `Find in ${this.caption || "this table"}`, placeholder: "Find", value: this.wanted, onInput: (event) => { this.wanted = event.target.value; this.count = this.shown || 10; } }) : null,
          ])
        : null,
      h("table", { role: "table", "aria-label": this.caption || this.columns[0].heading }, [
        h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, this.columns.map((column, at) => h("th", { role: "columnheader", scope: "col", class: column.kind, "aria-sort": this.by === at ? (this.isDown ? "descending" : "ascending") : undefined }, heading(column, at))))),
        h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row" }, row.map((cell, at) =>
          h(at ? "td" : "th", { role: at ? "cell" : "rowheader", scope: at ? undefined : "row", class: this.columns[at].kind, "data-label": this.columns[at].heading }, [h("div", this.inside(cell))]))))),
      ]),
      rest > 0 ? h("p", { class: "rows-end" }, [h("button", { type: "button", class: "plain", onClick: () => (this.count += MORE) }, `Show ${number(Math.min(MORE, rest))} more`), h("span", { class: "soft" }, `${number(rest)} more rows`)]) : null,
      this.wanted && !rows.length ? h("p", { class: "soft" }, "No row has that in it.") : null,
    ]);
  },
};
