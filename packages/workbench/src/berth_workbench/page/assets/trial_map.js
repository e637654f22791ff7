// A trial put together by hand: nodes are clicked on a map, zones, pools and workloads chosen from lists. Each choice is a
// line of the form beside it ("berth-line"), so what is tried can be read, edited and sent as text.

import { fetched, percent } from "/assets/numbers.js";
import { INK, RAMPS, ramp, themeOf } from "/assets/colours.js";
import { arrange, nodeAt, paintCell, paintLabels, paintMarks, penOf, ring, scarcestOf, scarcestShares, spot } from "/assets/map_layout.js";

const ACTIONS = [["drain", "drain it"], ["remove-nodes", "lose it"], ["cordon", "cordon it"], ["upgrade", "upgrade it"]];

export default {
  props: { src: String, podsSrc: String },
  data() {
    return { action: "drain", lines: [], problem: "", ready: false, tip: null, workload: "", replicas: 0, workloads: [], like: "", more: 1, told: "" };
  },
  created() {
    this.columns = null;
    this.layout = null;
    this.at = -1;
  },
  async mounted() {
    this.heard = (event) => {
      if (!("changes" in event.detail)) return;
      this.lines = String(event.detail.changes).split("\n").map((line) => line.trim()).filter(Boolean);
      this.paint();
    };
    window.addEventListener("berth-form", this.heard);
    this.resizing = new ResizeObserver(() => this.paint());
    this.resizing.observe(this.$refs.area);
    this.themed = new MutationObserver(() => this.paint());
    this.themed.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    const [columns, problem] = await fetched(this.src);
    this.problem = problem;
    if (!columns) return;
    this.columns = columns;
    this.ready = true;
    this.like = columns.names[0] || "";
    this.shares = scarcestShares(columns);
    this.paint();
    const [pods] = await fetched(this.podsSrc);
    if (pods) this.workloads = this.scalable(pods);
  },
  unmounted() {
    window.removeEventListener("berth-form", this.heard);
    this.resizing.disconnect();
    this.themed.disconnect();
  },
  methods: {
    // Workloads that can be scaled, with how many pods each has on nodes.
    scalable(pods) {
      const counts = new Map();
      pods.workloads.of.forEach((workload, pod) => {
        const [kind, name] = pods.workloads.names[workload].split("/");
        if (!["Deployment", "StatefulSet", "ReplicaSet"].includes(kind)) return;
        const key = `${kind.toLowerCase()}/${pods.namespaces.names[pods.namespaces.of[pod]]}/${name}`;
        counts.set(key, (counts.get(key) || 0) + 1);
      });
      return [...counts].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
    },
    add(line) {
      window.dispatchEvent(new CustomEvent("berth-line", { detail: { name: "changes", line } }));
    },
    paint() {
      const canvas = this.$refs.canvas;
      if (!this.columns || !canvas) return;
      const theme = themeOf(document.body), ink = INK[theme], colours = ramp(RAMPS[theme]);
      const width = this.$refs.area.clientWidth;
      const all = this.columns.names.map((_, at) => at);
      const layout = (this.layout = arrange(this.columns, all, "both", width, 320, 28));
      const pen = penOf(canvas, width, Math.ceil(layout.total));
      paintLabels(pen, ink, layout);
      const meant = this.meant();
      for (const at of all) {
        const [x, y] = spot(layout, at);
        paintCell(pen, ink, colours, x, y, layout.side, this.shares[at]);
        paintMarks(pen, ink, this.columns, at, x, y, layout.side);
        if (meant.has(at)) {
          pen.fillStyle = ink.over;
          pen.globalAlpha = 0.55;
          pen.fillRect(x, y, layout.side, layout.side);
          pen.globalAlpha = 1;
          ring(pen, ink.over, x, y, layout.side, 2);
        }
      }
      const lit = this.hover ?? this.at;
      if (lit >= 0 && layout.where.has(lit)) ring(pen, ink.focus, ...spot(layout, lit), layout.side, 2);
    },
    // The nodes that the lines are about.
    meant() {
      const { columns } = this;
      const found = new Set();
      for (const line of this.lines) {
        const [step, ...rest] = line.replace(/^--/, "").split(/\s+/);
        const what = rest.join(" ");
        columns.names.forEach((name, at) => {
          if (step === "lose-zone" ? columns.zones.names[columns.zones.of[at]] === what : ACTIONS.some(([each]) => each === step) && name === what) found.add(at);
        });
      }
      return found;
    },
    moved(event) {
      const at = this.layout ? nodeAt(this.layout, event.offsetX, event.offsetY) : -1;
      this.hover = at >= 0 ? at : undefined;
      this.tipFor(at);
    },
    tipFor(at) {
      if (at < 0) this.tip = null;
      else {
        const [x, y] = spot(this.layout, at);
        const left = Math.max(0, Math.min(x + this.layout.cell + 6, this.$refs.area.clientWidth - 260));
        this.tip = { text: `${this.describe(at)}: click to ${this.action}`, x: left, y: y + this.layout.cell + 6 };
      }
      this.paint();
    },
    clicked(event) {
      const at = nodeAt(this.layout, event.offsetX, event.offsetY);
      if (at >= 0) this.add(`${this.action} ${this.columns.names[at]}`);
    },
    pressed(event) {
      if (!this.layout) return;
      const order = [...this.layout.where.keys()];
      const place = order.indexOf(this.at);
      const to = { ArrowRight: place + 1, ArrowLeft: place - 1, ArrowDown: place + this.layout.per, ArrowUp: place - this.layout.per, Home: 0, End: order.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        if (this.at >= 0) this.add(`${this.action} ${this.columns.names[this.at]}`);
        return;
      }
      if (to === undefined) return;
      event.preventDefault();
      this.at = order[Math.max(0, Math.min(order.length - 1, to))];
      this.told = this.describe(this.at);
      this.tipFor(this.at);
    },
    describe(at) {
      return `${this.columns.names[at]}, ${scarcestOf(this.columns, at)} ${percent(this.shares[at])}`;
    },
    choice(label, options, onChange, value = "") {
      const h = Vue.h;
      return h("label", { class: "field" }, [
        h("span", label),
        h("select", { value, onChange: (event) => onChange(event.target.value, event.target) }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text))),
      ]);
    },
    number(label, value, onInput) {
      const h = Vue.h;
      return h("label", { class: "field short" }, [h("span", label), h("input", { type: "number", min: 0, value, onInput: (event) => onInput(Number(event.target.value)) })]);
    },
  },
  render() {
    const h = Vue.h;
    const zones = this.ready ? this.columns.zones.names.filter(Boolean) : [];
    const plus = (text, line, disabled = false) => h("button", { type: "button", class: "plain", disabled, onClick: () => this.add(line()) }, text);
    return h("div", { class: "trial-map" }, [
      h("div", { class: "toolbar" }, [
        this.choice("A click on a node", ACTIONS.map(([key, text]) => [key, `will ${text}`]), (value) => (this.action = value), this.action),
        zones.length ? this.choice("Lose a zone", [["", "choose…"], ...zones.map((zone) => [zone, zone])], (value, select) => { if (value) this.add(`lose-zone ${value}`); select.value = ""; }) : null,
      ]),
      h("div", { class: "toolbar" }, [
        this.workloads.length
          ? [
              this.choice("Scale", [["", "a workload…"], ...this.workloads.map(([key, count]) => [key, `${key} (${count})`])], (value) => {
                this.workload = value;
                this.replicas = (this.workloads.find(([key]) => key === value) || ["", 0])[1];
              }, this.workload),
              this.number("to", this.replicas, (value) => (this.replicas = value)),
              plus("Add", () => `scale ${this.workload}=${this.replicas}`, !this.workload),
            ]
          : null,
      ]),
      h("div", { class: "toolbar" }, [
        this.ready
          ? [
              this.number("More nodes", this.more, (value) => (this.more = value)),
              this.choice("like", this.columns.names.slice(0, 500).map((name) => [name, name]), (value) => (this.like = value), this.like),
              plus("Add", () => `add-nodes ${this.more}=${this.like}`),
            ]
          : null,
      ]),
      this.problem ? h("p", { class: "problem", role: "alert" }, this.problem) : null,
      h("div", { class: "map-area", ref: "area" }, [
        h("canvas", {
          ref: "canvas", class: "map", tabindex: 0, role: "application", "aria-roledescription": "map of nodes",
          "aria-label": `Nodes to choose from${this.ready ? `, ${this.columns.names.length}` : ""}. The arrow keys go from node to node, Enter chooses.`,
          onMousemove: this.moved, onMouseleave: () => { this.hover = undefined; this.tipFor(-1); }, onClick: this.clicked, onKeydown: this.pressed,
        }),
        this.tip && h("div", { class: "tip", "aria-hidden": "true", style: { left: `${this.tip.x}px`, top: `${this.tip.y}px` } }, this.tip.text),
      ]),
      h("p", { class: "sr-only", "aria-live": "polite" }, this.told),
    ]);
  },
};
