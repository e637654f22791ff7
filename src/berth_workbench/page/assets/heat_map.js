// The cluster as a map on a canvas: a cell for each node, pools as rows, zones as columns.
// It fetches its data itself (`src`, `scoresSrc`), keeps its settings in the page's address, and can be used with the
// keyboard alone: the arrow keys go from node to node, and what a node holds is told to screen readers.
// All text goes through text nodes or the canvas, never through HTML.

import { INK, RAMPS, STEPS, paintScale, ramp, themeOf } from "/assets/colours.js";

const MIN_CELL = 5;
const MAX_CELL = 40;
const LABEL_H = 22;
const GAP = 14;

const BYTES = ["memory", "ephemeral-storage"];

function amount(resource, value) {
  if (resource === "cpu") return String(Math.round(value) / 1000);
  if (BYTES.includes(resource) || resource.startsWith("hugepages-")) {
    for (const [power, unit] of [[40, "Ti"], [30, "Gi"], [20, "Mi"], [10, "Ki"]]) {
      const whole = value / 2 ** power;
      if (whole >= 1) return `${whole >= 100 ? whole.toFixed(0) : +whole.toPrecision(3)} ${unit}`;
    }
  }
  return String(value);
}

function percent(share) {
  return share === null ? "none" : `${Math.round(share * 100)} %`;
}

export default {
  props: { src: String, scoresSrc: String, refreshS: Number, recent: Array },
  data() {
    const query = new URLSearchParams(location.search);
    return {
      colour: query.get("colour") || "cpu",
      group: query.get("group") || "both",
      order: query.get("order") || "name",
      pod: query.get("pod") || "",
      find: "",
      problem: "",
      told: "",
      tip: null,
      chosen: null,
      ready: false,
      version: 0, // counts what was fetched, since columns and scores are too large to be watched
    };
  },
  computed: {
    colours() {
      void this.version;
      const found = this.ready ? this.columns.resources.map((each) => [each.name, each.name]) : [[this.colour, this.colour]];
      const all = this.ready ? [...found, ["pods", "pods"]] : found;
      if (this.ready && this.scores) {
        all.push(["score:", "score, all plugins"]);
        this.scores.plugins.forEach((plugin) => all.push([`score:${plugin}`, `score, ${plugin}`]));
      }
      return all;
    },
  },
  watch: {
    colour() { this.saveAndPaint(); },
    group() { this.saveAndPaint(); },
    order() { this.saveAndPaint(); },
    find() { this.paint(); },
    async pod() {
      this.colour = this.pod ? "score:" : this.colour.startsWith("score:") ? "cpu" : this.colour;
      await this.loadScores();
      this.saveAndPaint();
    },
  },
  created() {
    this.columns = null;
    this.scores = null;
    this.layout = null;
    this.at = -1;
  },
  async mounted() {
    this.resizing = new ResizeObserver(() => this.paint());
    this.resizing.observe(this.$refs.area);
    this.themed = new MutationObserver(() => this.paint());
    this.themed.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    await Promise.all([this.load(), this.pod ? this.loadScores() : null]);
    if (this.refreshS > 0) this.timer = setInterval(() => document.hidden || this.load(), this.refreshS * 1000);
  },
  unmounted() {
    clearInterval(this.timer);
    this.resizing.disconnect();
    this.themed.disconnect();
  },
  methods: {
    async fetched(url) {
      try {
        const answer = await fetch(url);
        if (answer.status === 401) return [null, "You are signed out: reload the page to sign in again."];
        const told = await answer.json();
        return answer.ok ? [told, ""] : [null, String(told.error)];
      } catch {
        return [null, "The server of this page does not answer."];
      }
    },
    async load() {
      const [columns, problem] = await this.fetched(this.src);
      this.problem = problem && this.columns ? `${problem} The map shows an earlier state.` : problem;
      if (!columns) return;
      this.columns = columns;
      this.prepare();
      this.ready = true;
      this.version += 1;
      this.paint();
      if (!this.marked) {
        this.marked = true;
        requestAnimationFrame(() => performance.mark("berth-map-painted"));
      }
    },
    async loadScores() {
      this.scores = null;
      if (!this.pod) return;
      const [scores, problem] = await this.fetched(`${this.scoresSrc}/${this.pod.split("/").map(encodeURIComponent).join("/")}`);
      this.problem = problem;
      this.scores = scores;
      this.version += 1;
      this.paint();
    },
    prepare() {
      const { columns } = this;
      this.shares = {};
      for (const { name, allocatable, requested } of columns.resources)
        this.shares[name] = allocatable.map((all, at) => (all > 0 ? requested[at] / all : null));
      this.shares.pods = columns.allowedPods.map((all, at) => (all > 0 ? columns.pods[at] / all : null));
    },
    saveAndPaint() {
      const query = new URLSearchParams(location.search);
      for (const [key, usual] of [["colour", "cpu"], ["group", "both"], ["order", "name"], ["pod", ""]])
        this[key] === usual ? query.delete(key) : query.set(key, this[key]);
      history.replaceState(history.state, "", query.size ? `?${query}` : location.pathname);
      this.paint();
    },

    // -- what each node is coloured by ---------------------------------------------------------------------------

    values() {
      if (this.colour.startsWith("score:") && this.scores) {
        const plugin = this.colour.slice(6);
        const scores = plugin ? this.scores.byPlugin[plugin] || {} : this.scores.totals;
        const of = this.columns.names.map((name) => (name in scores ? scores[name] : null));
        const known = of.filter((value) => value !== null);
        const low = known.length ? known.reduce((a, b) => Math.min(a, b)) : 0;
        const high = known.length ? known.reduce((a, b) => Math.max(a, b)) : 0;
        return { of, low, high, isScore: true };
      }
      return { of: this.shares[this.colour] || this.shares.cpu, low: 0, high: 1, isScore: false };
    },
    describe(at) {
      const { columns } = this;
      const pool = columns.pools.names[columns.pools.of[at]];
      const zone = columns.zones.names[columns.zones.of[at]];
      const parts = [`${columns.names[at]}`];
      if (pool || zone) parts.push([pool && `pool ${pool}`, zone && `zone ${zone}`].filter(Boolean).join(", "));
      if (columns.unschedulable[at]) parts.push("cordoned");
      if (columns.tainted[at]) parts.push("tainted");
      for (const { name, allocatable, requested } of columns.resources)
        if (allocatable[at] > 0)
          parts.push(`${name} ${percent(this.shares[name][at])}: ${amount(name, requested[at])} of ${amount(name, allocatable[at])}`);
      parts.push(`${columns.pods[at]} of ${columns.allowedPods[at]} pods`);
      if (this.scores) {
        const name = columns.names[at];
        if (name in this.scores.totals) {
          const plugin = this.colour.startsWith("score:") ? this.colour.slice(6) : "";
          parts.push(`score ${this.scores.totals[name]}`);
          if (plugin && this.scores.byPlugin[plugin]) parts.push(`${plugin} ${this.scores.byPlugin[plugin][name] ?? "none"}`);
        } else if (this.scores.rejected[name]) parts.push(`does not fit: ${this.scores.rejected[name]}`);
        if (name === this.scores.chosen) parts.push("chosen");
      }
      return parts;
    },

    // -- where each node is --------------------------------------------------------------------------------------

    arrange(width, height, values) {
      const { columns } = this;
      const byPool = this.group === "both" || this.group === "pool";
      let byZone = this.group === "both" || this.group === "zone";
      const count = columns.names.length;
      const nodes = Array.from({ length: count }, (_, at) => at);
      if (this.order === "value") nodes.sort((a, b) => (values[b] ?? -Infinity) - (values[a] ?? -Infinity) || a - b);
      const zoneCount = columns.zones.names.length;
      const gutter = byPool ? 132 : 0;
      const flat = byZone && (width - gutter) / zoneCount < 56; // too many zones to stand side by side
      const rowNames = [];
      const rowOf = new Map();
      const columnNames = byZone && !flat ? columns.zones.names : [""];
      const blocks = [];
      for (const at of nodes) {
        const pool = byPool ? columns.pools.names[columns.pools.of[at]] || "no pool" : "";
        const zone = byZone ? columns.zones.names[columns.zones.of[at]] || "no zone" : "";
        const key = flat ? `${pool}${pool && " "}${zone}` : pool;
        if (!rowOf.has(key)) {
          rowOf.set(key, rowNames.length);
          rowNames.push(key);
          blocks.push(columnNames.map(() => []));
        }
        blocks[rowOf.get(key)][byZone && !flat ? columns.zones.of[at] : 0].push(at);
      }
      const order = rowNames.map((_, row) => row).sort((a, b) => rowNames[a].localeCompare(rowNames[b], "en", { numeric: true }));
      const left = byPool || flat ? Math.max(gutter, 132) : 0;
      const top = byZone && !flat ? LABEL_H : 4;
      const wide = (width - left - GAP * (columnNames.length - 1)) / columnNames.length;
      const tall = (cell) => {
        const per = Math.max(1, Math.floor(wide / cell));
        return order.reduce((sum, row) => sum + Math.max(LABEL_H, Math.ceil(Math.max(...blocks[row].map((b) => b.length)) / per) * cell) + GAP, top);
      };
      let cell = MAX_CELL;
      while (cell > MIN_CELL && tall(cell) > height) cell -= 1;
      const per = Math.max(1, Math.floor(wide / cell));
      const placed = [];
      let y = top;
      for (const row of order) {
        const high = Math.max(LABEL_H, Math.ceil(Math.max(...blocks[row].map((b) => b.length)) / per) * cell);
        blocks[row].forEach((members, column) =>
          placed.push({ row: rowNames[row], column: columnNames[column] || (byZone && !flat ? "no zone" : ""), members, x: left + column * (wide + GAP), y, high, wide }));
        y += high + GAP;
      }
      const where = new Map();
      placed.forEach((block, number) => block.members.forEach((at, place) => where.set(at, [number, place])));
      return { placed, cell, per, left, top, total: y, where, byZone: byZone && !flat, columnNames, wide };
    },
    spot(at) {
      const { layout } = this;
      const [number, place] = layout.where.get(at);
      const block = layout.placed[number];
      return [block.x + (place % layout.per) * layout.cell, block.y + Math.floor(place / layout.per) * layout.cell];
    },
    nodeAt(x, y) {
      const { layout } = this;
      if (!layout) return -1;
      const block = layout.placed.find((each) => x >= each.x && x < each.x + each.wide && y >= each.y && y < each.y + each.high);
      if (!block) return -1;
      const column = Math.floor((x - block.x) / layout.cell);
      if (column >= layout.per) return -1;
      const place = Math.floor((y - block.y) / layout.cell) * layout.per + column;
      return block.members[place] ?? -1;
    },

    // -- painting --------------------------------------------------------------------------------------------------

    paint() {
      const canvas = this.$refs.canvas;
      if (!this.columns || !canvas) return;
      const theme = themeOf(document.body);
      const ink = INK[theme];
      const colours = ramp(RAMPS[theme]);
      const width = this.$refs.area.clientWidth;
      const { of, low, high, isScore } = this.values();
      const room = Math.max(300, window.innerHeight - canvas.getBoundingClientRect().top - window.scrollY - 96);
      const layout = (this.layout = this.arrange(width, room, of));
      const dots = window.devicePixelRatio || 1;
      const height = Math.ceil(layout.total);
      if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
        canvas.width = Math.round(width * dots);
        canvas.height = Math.round(height * dots);
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
      }
      const pen = canvas.getContext("2d");
      pen.setTransform(dots, 0, 0, dots, 0, 0);
      pen.clearRect(0, 0, width, height);
      this.paintLabels(pen, ink, layout, of, isScore);
      const space = layout.cell >= 12 ? 2 : layout.cell >= 7 ? 1 : 0.5;
      const side = layout.cell - space;
      const wanted = this.find.trim().toLowerCase();
      const span = high - low || 1;
      for (const block of layout.placed) {
        block.members.forEach((at, place) => {
          const x = block.x + (place % layout.per) * layout.cell;
          const y = block.y + Math.floor(place / layout.per) * layout.cell;
          const value = of[at];
          pen.globalAlpha = wanted && !this.columns.names[at].includes(wanted) ? 0.15 : 1;
          if (value === null) {
            pen.strokeStyle = ink.none;
            pen.lineWidth = 1;
            pen.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
          } else {
            const share = Math.min(1, Math.max(0, (value - low) / span));
            pen.fillStyle = colours[Math.round(share * STEPS)];
            pen.fillRect(x, y, side, side);
          }
          if (this.columns.unschedulable[at]) this.cross(pen, ink, x, y, side);
          else if (this.columns.tainted[at] && side >= 7) this.corner(pen, ink, x, y, side);
          if (this.scores && this.columns.names[at] === this.scores.chosen) this.ring(pen, ink.mark, x, y, side, 2.5);
        });
      }
      pen.globalAlpha = 1;
      const lit = this.hover ?? this.at;
      if (lit >= 0 && layout.where.has(lit)) this.ring(pen, ink.focus, ...this.spot(lit), side, 2);
      this.legend = { low, high, isScore, colours };
      this.drawLegend();
    },
    paintLabels(pen, ink, layout, of, isScore) {
      pen.textBaseline = "middle";
      pen.font = "600 12.5px system-ui, sans-serif";
      if (layout.byZone)
        layout.columnNames.forEach((name, column) => {
          pen.fillStyle = ink.soft;
          pen.fillText(this.fitting(pen, name || "no zone", layout.wide), layout.left + column * (layout.wide + GAP), LABEL_H / 2 - 1);
        });
      if (!layout.left) return;
      const rows = new Map();
      for (const block of layout.placed) {
        const row = rows.get(block.row) || { y: block.y, high: block.high, count: 0, sum: 0, known: 0 };
        row.count += block.members.length;
        for (const at of block.members)
          if (of[at] !== null) { row.sum += of[at]; row.known += 1; }
        rows.set(block.row, row);
      }
      for (const [name, row] of rows) {
        pen.font = "600 12.5px system-ui, sans-serif";
        pen.fillStyle = ink.text;
        pen.fillText(this.fitting(pen, name, layout.left - 12), 0, row.y + 8);
        if (row.high < 2 * LABEL_H - 10) continue;
        const mean = row.known ? (isScore ? `ø ${Math.round(row.sum / row.known)}` : `ø ${percent(row.sum / row.known)}`) : "";
        pen.font = "12px system-ui, sans-serif";
        pen.fillStyle = ink.soft;
        pen.fillText(`${row.count} node${row.count === 1 ? "" : "s"}  ${mean}`, 0, row.y + 25);
      }
    },
    fitting(pen, text, room) {
      if (pen.measureText(text).width <= room) return text;
      let kept = text.slice(0, 60);
      while (kept.length > 1 && pen.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
      return `${kept}…`;
    },
    cross(pen, ink, x, y, side) {
      pen.strokeStyle = ink.focus;
      pen.lineWidth = side >= 12 ? 2 : 1;
      pen.beginPath();
      pen.moveTo(x + 1, y + side - 1);
      pen.lineTo(x + side - 1, y + 1);
      pen.stroke();
    },
    corner(pen, ink, x, y, side) {
      pen.fillStyle = ink.mark;
      pen.beginPath();
      pen.moveTo(x + side, y);
      pen.lineTo(x + side, y + side / 2.4);
      pen.lineTo(x + side - side / 2.4, y);
      pen.fill();
    },
    ring(pen, colour, x, y, side, wide) {
      pen.strokeStyle = colour;
      pen.lineWidth = wide;
      pen.strokeRect(x - 0.5, y - 0.5, side + 1, side + 1);
    },
    drawLegend() {
      const bar = this.$refs.scale;
      if (!bar) return;
      const { colours, low, high, isScore } = this.legend;
      paintScale(bar, colours);
      this.$refs.low.textContent = isScore ? String(low) : "0 %";
      this.$refs.high.textContent = isScore ? String(high) : "100 %";
    },

    // -- pointer and keyboard --------------------------------------------------------------------------------------

    moved(event) {
      const at = this.nodeAt(event.offsetX, event.offsetY);
      this.hover = at >= 0 ? at : undefined;
      this.showTip(at);
    },
    left() {
      this.hover = undefined;
      this.showTip(document.activeElement === this.$refs.canvas ? this.at : -1);
    },
    showTip(at) {
      if (at < 0) this.tip = null;
      else {
        const [x, y] = this.spot(at);
        const width = this.$refs.area.clientWidth;
        this.tip = { parts: this.describe(at), x: Math.min(x + this.layout.cell + 8, Math.max(0, width - 300)), y: y + this.layout.cell + 8 };
      }
      this.paint();
    },
    clicked(event) {
      const at = this.nodeAt(event.offsetX, event.offsetY);
      if (at < 0) return;
      this.at = at;
      this.choose(at);
    },
    choose(at) {
      this.chosen = this.columns.names[at];
      this.paint();
    },
    goTo(at) {
      this.at = at;
      this.hover = undefined;
      this.told = this.describe(at).join(", ");
      this.showTip(at);
    },
    focused() {
      if (this.at < 0 && this.layout) this.goTo(this.layout.placed.find((block) => block.members.length)?.members[0] ?? -1);
      else if (this.at >= 0) this.goTo(this.at);
    },
    pressed(event) {
      if (!this.layout || this.at < 0) return;
      const { placed, per, where } = this.layout;
      const [number, place] = where.get(this.at) || [0, 0];
      const members = placed[number].members;
      const filled = placed.map((block, index) => (block.members.length ? index : -1)).filter((index) => index >= 0);
      const beside = (step) => placed[filled[Math.min(filled.length - 1, Math.max(0, filled.indexOf(number) + step))]].members;
      const steps = {
        ArrowRight: () => members[place + 1] ?? beside(1)[0],
        ArrowLeft: () => members[place - 1] ?? beside(-1).at(-1),
        ArrowDown: () => members[place + per] ?? (place + per < members.length ? members.at(-1) : beside(1)[0]),
        ArrowUp: () => members[place - per] ?? beside(-1).at(-1),
        Home: () => members[0],
        End: () => members.at(-1),
        PageDown: () => beside(1)[0],
        PageUp: () => beside(-1)[0],
        Enter: () => (this.choose(this.at), this.at),
        " ": () => (this.choose(this.at), this.at),
        Escape: () => ((this.chosen = null), this.at),
      };
      if (!(event.key in steps)) return;
      event.preventDefault();
      this.goTo(steps[event.key]());
    },

    // -- what is beside the canvas ---------------------------------------------------------------------------------

    field(label, name, options) {
      const h = Vue.h;
      return h("label", { class: "field" }, [
        h("span", label),
        h("select", { name, value: this[name], onChange: (event) => (this[name] = event.target.value) },
          options.map(([value, text]) => h("option", { value, selected: value === this[name] }, text))),
      ]);
    },
    details() {
      const h = Vue.h;
      const at = this.ready && this.chosen !== null ? this.columns.names.indexOf(this.chosen) : -1;
      if (at < 0) return null;
      const rows = this.columns.resources
        .filter(({ allocatable, requested }) => allocatable[at] > 0 || requested[at] > 0)
        .map(({ name, allocatable, requested }) => [name, amount(name, requested[at]), amount(name, allocatable[at]), this.shares[name][at]]);
      rows.push(["pods", String(this.columns.pods[at]), String(this.columns.allowedPods[at]), this.shares.pods[at]]);
      const notes = this.describe(at).slice(1).filter((part) => !/ of /.test(part));
      return h("section", { class: "panel node-details", "aria-label": `Node ${this.chosen}` }, [
        h("div", { class: "panel-head" }, [
          h("h2", this.chosen),
          h("button", { type: "button", class: "plain", onClick: () => { this.chosen = null; this.$refs.canvas.focus(); } }, "Close"),
        ]),
        notes.length ? h("p", { class: "soft" }, notes.join(" · ")) : null,
        h("table", [
          h("thead", h("tr", [h("th", { scope: "col" }, "Resource"), ...["Requested", "Allocatable", "Share"].map((text) => h("th", { scope: "col", class: "number" }, text))])),
          h("tbody", rows.map(([name, requested, allocatable, share]) =>
            h("tr", [
              h("th", { scope: "row" }, name),
              h("td", { class: "number" }, requested),
              h("td", { class: "number" }, allocatable),
              h("td", { class: "number" }, [h("span", { class: "bar", "aria-hidden": "true" }, h("span", { style: { width: `${Math.min(100, (share || 0) * 100)}%` } })), percent(share)]),
            ]))),
        ]),
      ]);
    },
    summary() {
      if (!this.ready) return "Map of the nodes, not loaded yet";
      const names = this.columns.names;
      const of = this.shares[this.colour] || this.shares.cpu;
      const known = of.filter((share) => share !== null);
      const mean = known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
      const what = this.colour.startsWith("score:") ? `scores for ${this.pod}` : `${this.colour} requested, ${percent(mean)} on average`;
      return `Map of ${names.length} nodes by ${what}. Use the arrow keys to go from node to node, Enter for details.`;
    },
  },
  updated() {
    if (this.legend) this.drawLegend();
  },
  render() {
    const h = Vue.h;
    const pods = this.recent.includes(this.pod) || !this.pod ? this.recent : [this.pod, ...this.recent];
    return h("div", { class: "heat-map" }, [
      h("div", { class: "toolbar" }, [
        this.field("Colour by", "colour", this.colours),
        this.field("Group by", "group", [["both", "pool and zone"], ["pool", "pool"], ["zone", "zone"], ["none", "nothing"]]),
        this.field("Order by", "order", [["name", "name"], ["value", "colour"]]),
        this.field("Scores of pod", "pod", [["", "none"], ...pods.map((pod) => [pod, pod])]),
        h("label", { class: "field" }, [
          h("span", "Find node"),
          h("input", { type: "search", name: "find", value: this.find, placeholder: "part of a name", onInput: (event) => (this.find = event.target.value) }),
        ]),
      ]),
      h("p", { class: "problem", role: "alert", hidden: !this.problem }, this.problem),
      h("div", { class: "panel" }, [
        h("div", { class: "legend", role: "img", "aria-label": "Colours: from little, on the left, to much, on the right" }, [
          h("span", { ref: "low" }, "0 %"),
          h("canvas", { ref: "scale", width: 120, height: 12 }),
          h("span", { ref: "high" }, "100 %"),
          h("span", { class: "key" }, [h("span", { class: "swatch cordoned" }), "cordoned"]),
          h("span", { class: "key" }, [h("span", { class: "swatch tainted" }), "tainted"]),
          h("span", { class: "key" }, [h("span", { class: "swatch none" }), this.colour.startsWith("score:") ? "does not fit" : "has none"]),
        ]),
        h("div", { class: "map-area", ref: "area" }, [
        h("canvas", {
          ref: "canvas", class: "map", tabindex: 0, role: "application", "aria-roledescription": "map of nodes",
          "aria-label": this.summary(), onMousemove: this.moved, onMouseleave: this.left, onClick: this.clicked,
          onKeydown: this.pressed, onFocus: this.focused, onBlur: () => { this.tip = null; this.hover = undefined; this.paint(); },
        }),
        this.tip && h("div", { class: "tip", "aria-hidden": "true", style: { left: `${this.tip.x}px`, top: `${this.tip.y}px` } },
          this.tip.parts.map((part, number) => h(number ? "div" : "strong", part))),
        this.ready ? null : h("p", { class: "loading", role: "status" }, this.problem ? "" : "Loading the nodes…"),
        ]),
      ]),
      h("p", { class: "sr-only", "aria-live": "polite" }, this.told),
      this.details(),
    ]);
  },
};
