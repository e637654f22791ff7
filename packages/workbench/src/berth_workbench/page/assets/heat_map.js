// The cluster as a map on a canvas: a cell for each node, pools as rows, zones as columns, and in each cell its pods.
// It fetches its data itself (`src`, `scoresSrc`, `podsSrc`), keeps its settings in the page's address, and can be used
// with the keyboard alone: the arrow keys go from node to node, and what a node holds is told to screen readers.
// All text goes through text nodes or the canvas, never through HTML.

import { amount, fetched, number, percent } from "/assets/numbers.js";
import { INK, KINDS, RAMPS, paintScale, ramp, themeOf } from "/assets/colours.js";
import { arrange, blocks, nodeAt, onCanvas, paintCell, paintLabels, paintMarks, penOf, ring, scarcestOf, scarcestShares, shareOf, spot } from "/assets/map_layout.js";
import { nodePanel } from "/assets/node_panel.js";

const BLOCKS_FROM = 20; // pixels: in smaller cells pods would be dots
const NODES_FROM = 9; // pixels: where cells would be smaller, groups of nodes are shown, and a click goes into one
const GROUPS_AT_MOST = 300;
const ORDINARY = ["", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Node"]; // pods of other workloads, such as Jobs, belong together: one shape
const SCARCEST = "scarcest"; // each pool by the resource of which most is requested there
const SETTINGS = [["colour", SCARCEST], ["group", "both"], ["order", "name"], ["pod", ""], ["show", "pods"], ["node", ""], ["within", ""]];

const COLOURS = KINDS.light.length - 1; // the last one is for the rest

// Each name has a colour of its own choice, unless one that comes before it in the alphabet has it: the same at each load.
function ownColours(names) {
  const free = new Set(Array.from({ length: COLOURS }, (_, at) => at));
  return new Map(names.map((name) => {
    let at = [...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 9973, 7) % COLOURS;
    while (!free.has(at)) at = (at + 1) % COLOURS;
    free.delete(at);
    return [name, at];
  }));
}

export default {
  mixins: [onCanvas],
  props: { src: String, scoresSrc: String, podsSrc: String, refreshS: Number, recent: Array },
  data() {
    const query = new URLSearchParams(location.search);
    return {
      ...Object.fromEntries(SETTINGS.map(([key, usual]) => [key, query.get(key) || usual])),
      find: "",
      problem: "",
      told: "",
      tip: null,
      details: null,
      detailsProblem: "",
      namespaces: [],
      ready: false,
      isTooSmall: false, // for pods as blocks
      isCoarse: false, // groups of nodes are shown
      version: 0, // counts what was fetched, since columns and scores are too large to be watched
    };
  },
  computed: {
    colours() {
      void this.version;
      const found = this.ready ? [...this.columns.resources.map((each) => each.name), "pods"] : this.colour === SCARCEST ? [] : [this.colour];
      const all = [[SCARCEST, "each pool's scarcest"], ...found.map((name) => [name, name])];
      if (this.ready && this.scores) {
        all.push(["score:", "score, all plugins"]);
        this.scores.plugins.forEach((plugin) => all.push([`score:${plugin}`, `score, ${plugin}`]));
      }
      return all;
    },
    showsPods() {
      return this.show === "pods" && !this.colour.startsWith("score:");
    },
  },
  watch: {
    colour() { this.saveAndPaint(); },
    group() { this.saveAndPaint(); },
    order() { this.saveAndPaint(); },
    show() { this.saveAndPaint(); },
    within() { this.at = -1; this.hover = undefined; this.tip = null; this.saveAndPaint(); },
    node() { this.loadNode(); this.saveAndPaint(); },
    find() { this.paint(); },
    async pod() {
      this.colour = this.pod ? "score:" : this.colour.startsWith("score:") ? SCARCEST : this.colour;
      await this.loadScores();
      this.saveAndPaint();
    },
  },
  created() {
    this.columns = null;
    this.scores = null;
    this.pods = null;
    this.groups = null;
    this.layout = null;
    this.at = -1;
  },
  async mounted() {
    await Promise.all([this.load(), this.pod ? this.loadScores() : null, this.loadNode()]);
    if (this.refreshS > 0) this.timer = setInterval(() => document.hidden || (this.load(), this.loadNode()), this.refreshS * 1000);
  },
  unmounted() {
    clearInterval(this.timer);
  },
  methods: {
    async load() {
      const [columns, problem] = await fetched(this.src);
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
      await this.loadPods();
    },
    // The pods come after the nodes: a map without them says much already.
    async loadPods() {
      if (!this.layout || this.layout.side < BLOCKS_FROM) return;
      const [pods] = await fetched(this.podsSrc);
      if (!pods || !pods.names.length) return;
      const number = new Map(this.columns.names.map((name, at) => [name, at]));
      const of = pods.nodes.names.map((name) => number.get(name) ?? -1);
      const onNode = this.columns.names.map(() => []);
      pods.nodes.of.forEach((node, pod) => of[node] >= 0 && onNode[of[node]].push(pod));
      this.pods = { ...pods, onNode };
      const counts = new Map();
      pods.namespaces.of.forEach((namespace) => counts.set(namespace, (counts.get(namespace) || 0) + 1));
      const most = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([namespace]) => pods.namespaces.names[namespace]);
      this.namespaces = [...most.slice(0, COLOURS).sort(), ...most.slice(COLOURS)];
      this.kindsOf = ownColours(this.namespaces.slice(0, COLOURS));
      this.version += 1;
      this.paint();
      requestAnimationFrame(() => performance.mark("berth-pods-painted"));
    },
    async loadNode() {
      const name = this.node;
      if (!name) {
        this.details = null;
        this.detailsProblem = "";
        return;
      }
      if (this.details && this.details.name !== name) this.details = null;
      const [details, problem] = await fetched(`${this.src}/${encodeURIComponent(name)}`);
      if (this.node !== name) return;
      this.detailsProblem = problem;
      if (details) this.details = details;
    },
    async loadScores() {
      this.scores = null;
      if (!this.pod) return;
      const [scores, problem] = await fetched(`${this.scoresSrc}/${this.pod.split("/").map(encodeURIComponent).join("/")}`);
      this.problem = problem;
      this.scores = scores;
      this.version += 1;
      this.paint();
    },
    prepare() {
      const { columns } = this;
      this.amounts = Object.fromEntries(columns.resources.map((each) => [each.name, each]));
      this.amounts.pods = { name: "pods", requested: columns.pods, allocatable: columns.allowedPods };
      this.shares = {};
      for (const { name, allocatable, requested } of Object.values(this.amounts))
        this.shares[name] = allocatable.map((all, at) => (all > 0 ? requested[at] / all : null));
      this.shares[SCARCEST] = scarcestShares(columns);
    },
    saveAndPaint() {
      const query = new URLSearchParams(location.search);
      for (const [key, usual] of SETTINGS) this[key] === usual ? query.delete(key) : query.set(key, this[key]);
      history.replaceState(history.state, "", query.size ? `?${query}` : location.pathname);
      this.paint();
    },

    // The resource that a node is coloured by.
    resourceOf(at) {
      return this.colour === SCARCEST ? scarcestOf(this.columns, at) : this.colour in this.amounts ? this.colour : "cpu";
    },

    // -- what each node is coloured by ---------------------------------------------------------------------------

    values() {
      if (this.colour.startsWith("score:") && this.scores) {
        const plugin = this.colour.slice(6);
        const scores = plugin ? this.scores.byPlugin[plugin] || {} : this.scores.totals;
        const of = this.columns.names.map((name) => (name in scores ? scores[name] : null));
        const known = of.filter((value) => value !== null);
        const low = known.reduce((a, b) => Math.min(a, b), known[0] ?? 0);
        const high = known.reduce((a, b) => Math.max(a, b), known[0] ?? 0);
        const span = high - low || 1;
        return { of: of.map((value) => (value === null ? null : (value - low) / span)), low: String(low), high: String(high), raw: of };
      }
      return { of: this.shares[this.colour] || this.shares[SCARCEST], low: "0%", high: "100%", raw: null };
    },
    mean(members, raw) {
      if (!raw && this.colour === SCARCEST && !["both", "pool"].includes(this.group)) return "";
      if (!raw) return `${percent(shareOf(this.amounts[this.resourceOf(members[0])], members))} ${this.resourceOf(members[0])}`;
      const known = members.filter((at) => raw[at] !== null);
      return known.length ? `ø ${Math.round(known.reduce((sum, at) => sum + raw[at], 0) / known.length)}` : "";
    },
    kindOf(namespace) {
      const colours = KINDS[themeOf(document.body)];
      return colours[this.kindsOf.get(namespace) ?? COLOURS];
    },
    describe(at) {
      const { columns } = this;
      if (this.groups) {
        const members = this.groups.get(at) || [at];
        const known = columns.resources.map((each) => [each.name, shareOf(each, members)]).filter(([, share]) => share !== null);
        return [this.groupOf(at), `${number(members.length)} nodes`, ...known.map(([name, share]) => `${name} ${percent(share)} requested`), "Enter shows its nodes"];
      }
      const parts = [`${columns.names[at]}`, ...this.notes(at)];
      for (const { name, allocatable, requested } of columns.resources)
        if (allocatable[at] > 0)
          parts.push(`${name} ${percent(this.shares[name][at])}: ${amount(name, requested[at])} of ${amount(name, allocatable[at])}`);
      parts.push(`${number(columns.pods[at])} of ${number(columns.allowedPods[at])} pods`);
      return parts;
    },
    notes(at) {
      const { columns } = this;
      const pool = columns.pools.names[columns.pools.of[at]];
      const zone = columns.zones.names[columns.zones.of[at]];
      const parts = [];
      if (pool || zone) parts.push([pool && `pool ${pool}`, zone && `zone ${zone}`].filter(Boolean).join(", "));
      if (columns.unschedulable[at]) parts.push("cordoned");
      if (columns.tainted[at]) parts.push("tainted");
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
    // The group that a node is shown in where there are too many nodes to be shown each: pool and zone, or zone alone.
    groupOf(at) {
      const { columns } = this;
      const zone = columns.zones.names[columns.zones.of[at]] || "no zone", pool = columns.pools.names[columns.pools.of[at]] || "no pool";
      return columns.pools.names.length * columns.zones.names.length > GROUPS_AT_MOST ? `zone ${zone}` : `${pool}, ${zone}`;
    },
    // One node for each group, by which the group is laid out, painted and chosen.
    gathered() {
      const groups = new Map();
      this.columns.names.forEach((_, at) => {
        const key = this.groupOf(at);
        groups.has(key) ? groups.get(key).push(at) : groups.set(key, [at]);
      });
      return new Map([...groups.values()].map((members) => [members[0], members]));
    },
    ordered(values) {
      const all = this.columns.names.map((_, at) => at).filter((at) => !this.within || this.groupOf(at) === this.within);
      if (this.order === "value") all.sort((a, b) => (values[b] ?? -Infinity) - (values[a] ?? -Infinity) || a - b);
      return all;
    },

    // -- painting --------------------------------------------------------------------------------------------------

    paint() {
      const canvas = this.$refs.canvas;
      if (!this.columns || !canvas) return;
      const theme = themeOf(document.body);
      const ink = INK[theme];
      const colours = ramp(RAMPS[theme]);
      const width = this.$refs.area.clientWidth;
      const { of, low, high, raw } = this.values();
      const room = Math.max(width < 560 ? 600 : 300, window.innerHeight - canvas.getBoundingClientRect().top - window.scrollY - 64);
      const notes = (members) => [`${number(members.length)} node${members.length === 1 ? "" : "s"}`, this.mean(members, raw)];
      let layout = arrange(this.columns, this.ordered(of), this.group, width, room, undefined, notes);
      this.isTooSmall = layout.side < BLOCKS_FROM;
      this.groups = layout.cell < NODES_FROM && !this.within && !this.scores ? this.gathered() : null;
      const all = (at) => this.groups?.get(at) || [at];
      if (this.groups) layout = arrange(this.columns, [...this.groups.keys()], "both", width, room, 120, (members) => notes(members.flatMap(all)));
      this.layout = layout;
      this.isCoarse = this.groups !== null;
      const pen = penOf(canvas, width, Math.ceil(layout.total));
      paintLabels(pen, ink, layout);
      const wanted = this.find.trim().toLowerCase();
      const withPods = this.showsPods && this.pods !== null && layout.side >= BLOCKS_FROM;
      for (const at of layout.where.keys()) {
        const [x, y] = spot(layout, at);
        pen.globalAlpha = wanted && !this.columns.names[at].includes(wanted) ? 0.15 : 1;
        if (withPods) this.paintPods(pen, ink, at, x, y, layout.side);
        else paintCell(pen, ink, colours, x, y, layout.side, this.groups ? shareOf(this.amounts[this.resourceOf(at)], all(at)) : of[at]);
        if (this.groups) this.writeCount(pen, ink, x, y, layout.side, all(at).length);
        else paintMarks(pen, ink, this.columns, at, x, y, layout.side);
        if (this.scores && this.columns.names[at] === this.scores.chosen) ring(pen, ink.mark, x, y, layout.side, 2.5);
      }
      pen.globalAlpha = 1;
      const chosen = this.node ? this.columns.names.indexOf(this.node) : -1;
      if (layout.where.has(chosen)) ring(pen, ink.focus, ...spot(layout, chosen), layout.side, 3);
      const lit = this.hover ?? this.at;
      if (lit >= 0 && layout.where.has(lit)) ring(pen, ink.focus, ...spot(layout, lit), layout.side, 2);
      this.legend = { low, high, colours };
      this.drawLegend();
    },
    writeCount(pen, ink, x, y, side, count) {
      if (side < 30) return;
      pen.fillStyle = ink.ground;
      pen.fillRect(x + 4, y + 4, Math.min(side - 8, 12 + 8 * number(count).length), 20);
      pen.fillStyle = ink.text;
      pen.font = "600 12.5px system-ui, sans-serif";
      pen.fillText(number(count), x + 9, y + 14.5);
    },
    // The pods of a node, from the bottom of its cell: each as large as its part of the node's resource.
    paintPods(pen, ink, at, x, y, side) {
      const { pods } = this;
      pen.fillStyle = ink.ground;
      pen.fillRect(x, y, side, side);
      if (!(this.amounts[this.resourceOf(at)].allocatable[at] > 0)) {
        paintCell(pen, ink, [], x, y, side, null);
        return;
      }
      this.eachShape(at, x, y, side, ([pod], left, top, width, height) => {
        pen.fillStyle = this.kindOf(pods.namespaces.names[pods.namespaces.of[pod]]);
        pen.fillRect(left + 0.5, top + 0.5, Math.max(0.5, width - 1), Math.max(0.5, height - 1));
      });
      if (this.shares[this.resourceOf(at)][at] > 1.0005) {
        pen.fillStyle = ink.over;
        pen.fillRect(x, y, side, 3);
      }
    },
    // Each pod is a shape; those of a gang, which run together or not at all, are one.
    eachShape(at, x, y, side, paint) {
      const { pods } = this, resource = this.resourceOf(at), asked = pods.requests[resource];
      const size = (pod) => (asked ? asked[pod] : resource === "pods" ? 1 : 0);
      const shapes = new Map(), sizeOf = (shape) => shape.reduce((sum, pod) => sum + size(pod), 0);
      for (const pod of pods.onNode[at]) {
        if (!(size(pod) > 0)) continue;
        const workload = pods.workloads.names[pods.workloads.of[pod]];
        const key = ORDINARY.includes(workload.split("/")[0]) ? pod : `${pods.namespaces.of[pod]} ${workload}`;
        shapes.has(key) ? shapes.get(key).push(pod) : shapes.set(key, [pod]);
      }
      const shown = [...shapes.values()].sort((a, b) => sizeOf(b) - sizeOf(a) || a[0] - b[0]);
      const high = side * Math.min(1, sizeOf(shown.flat()) / this.amounts[resource].allocatable[at]);
      blocks(shown, sizeOf, x, y + side - high, side, high, paint);
    },
    // The name of the pod under the pointer, where pods are shown.
    podUnder(at, x, y) {
      if (!this.showsPods || !this.pods || this.layout.side < BLOCKS_FROM) return "";
      let found = "";
      this.eachShape(at, ...spot(this.layout, at), this.layout.side, (shape, left, top, width, height) => {
        if (!(x >= left && x < left + width && y >= top && y < top + height)) return;
        found = `${this.pods.namespaces.names[this.pods.namespaces.of[shape[0]]]}/${this.pods.names[shape[0]]}${shape.length > 1 ? ` and ${shape.length - 1} more of its gang` : ""}`;
      });
      return found;
    },
    drawLegend() {
      const bar = this.$refs.scale;
      if (!bar || !this.legend) return;
      paintScale(bar, this.legend.colours);
      this.$refs.low.textContent = this.legend.low;
      this.$refs.high.textContent = this.legend.high;
    },

    // -- pointer and keyboard --------------------------------------------------------------------------------------

    moved(event) {
      const at = this.layout ? nodeAt(this.layout, event.offsetX, event.offsetY) : -1;
      this.hover = at >= 0 ? at : undefined;
      this.showTip(at, at >= 0 ? this.podUnder(at, event.offsetX, event.offsetY) : "");
    },
    left() {
      this.hover = undefined;
      this.showTip(document.activeElement === this.$refs.canvas && this.byKeys ? this.at : -1);
    },
    showTip(at, pod = "") {
      if (at < 0) this.tip = null;
      else {
        const [x, y] = spot(this.layout, at);
        const width = this.$refs.area.clientWidth;
        const { cell } = this.layout;
        this.tip = { parts: [...this.describe(at), ...(pod ? [`under the pointer: ${pod}`] : [])], x: Math.max(0, Math.min(x + cell + 8, width - 300)), y: y + cell + 8 };
      }
      this.paint();
    },
    // A click opens the node under the pointer, whichever the keyboard was at.
    clicked(event) {
      const at = nodeAt(this.layout, event.offsetX, event.offsetY);
      this.byKeys = false;
      if (at < 0) return;
      this.at = at;
      this.choose(at);
    },
    choose(at) {
      this.tip = null;
      if (this.groups) {
        this.within = this.groupOf(at);
        return;
      }
      this.node = this.columns.names[at];
    },
    closePanel() {
      this.node = "";
      this.$refs.canvas.focus();
    },
    goTo(at) {
      if (at === undefined || at < 0) return;
      this.at = at;
      this.hover = undefined;
      this.told = this.describe(at).join(", ");
      this.showTip(at);
    },
    // Only who comes by the keyboard is taken to a node: a click says itself which one is meant.
    focused() {
      this.byKeys = this.$refs.canvas.matches(":focus-visible");
      if (!this.byKeys || !this.layout) return;
      this.goTo(this.at >= 0 ? this.at : this.layout.placed.find((block) => block.members.length)?.members[0]);
    },
    pressed(event) {
      if (!this.layout) return;
      if (event.key === "Escape") {
        this.node = "";
        return;
      }
      if (this.at < 0) return;
      this.byKeys = true;
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
      };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const to = steps[event.key]();
      if (event.key !== "Enter" && event.key !== " ") this.goTo(to);
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
    panel() {
      if (!this.node) return null;
      const at = this.ready ? this.columns.names.indexOf(this.node) : -1;
      return nodePanel(Vue.h, {
        name: this.node,
        node: this.details,
        problem: this.detailsProblem,
        notes: at >= 0 ? this.notes(at) : [],
        colourOf: this.namespaces.length ? (namespace) => this.kindOf(namespace) : null,
        close: () => this.closePanel(),
      });
    },
    kinds() {
      const h = Vue.h;
      void this.version;
      const shown = this.namespaces.slice(0, COLOURS);
      const rest = this.namespaces.length - shown.length;
      const keys = shown.map((name) => [name, name]);
      if (rest > 0) keys.push(["\u0000", `${rest} other${rest === 1 ? "" : "s"}`]);
      return keys.map(([namespace, text]) =>
        h("span", { class: "key" }, [h("span", { class: "dot", style: { background: this.kindOf(namespace) } }), text]));
    },
    scarcest() {
      const { pools, scarcest } = this.columns;
      return `each pool's scarcest resource (${pools.names.map((pool, at) => `${pool || "no pool"}: ${scarcest[at] || "cpu"}`).join(", ")})`;
    },
    summary() {
      void this.version;
      if (!this.ready) return "Map of the nodes, not loaded yet";
      const names = this.columns.names;
      const total = () => `${this.colour}, ${percent(shareOf(this.amounts[this.resourceOf(0)], names.map((_, at) => at)))} of it requested`;
      const what = this.colour.startsWith("score:") ? `scores for ${this.pod}` : this.colour === SCARCEST ? this.scarcest() : total();
      return `Map of ${number(names.length)} nodes by ${what}. Use the arrow keys to go from node to node, Enter for details.`;
    },
  },
  updated() {
    this.drawLegend();
  },
  render() {
    const h = Vue.h;
    const pods = this.recent.includes(this.pod) || !this.pod ? this.recent : [this.pod, ...this.recent];
    const byScore = this.colour.startsWith("score:");
    const withKinds = this.showsPods && this.namespaces.length > 0;
    return h("div", { class: "heat-map" }, [
      h("div", { class: "toolbar" }, [
        this.within ? h("button", { type: "button", class: "plain", onClick: () => (this.within = "") }, `${this.within}: back to all nodes`) : null,
        this.isCoarse ? h("span", { class: "soft" }, "Too many nodes to show each: a click on a group shows its nodes.") : null,
        this.field("Colour by", "colour", this.colours),
        this.field("Show", "show", [["pods", this.isTooSmall ? "pods (zoom in: too many nodes)" : "pods as blocks"], ["fill", "how full"]]),
        this.field("Group by", "group", [["both", "pool and zone"], ["pool", "pool"], ["zone", "zone"], ["none", "nothing"]]),
        this.field("Order by", "order", [["name", "name"], ["value", "colour"]]),
        this.field("Scores of pod", "pod", [["", "none"], ...pods.map((pod) => [pod, pod])]),
        h("label", { class: "field" }, [
          h("span", "Find node"),
          h("input", { type: "search", name: "find", value: this.find, placeholder: "part of a name", onInput: (event) => (this.find = event.target.value) }),
        ]),
      ]),
      h("p", { class: "problem", role: "alert", hidden: !this.problem }, this.problem),
      h("div", { class: this.node ? "with-panel" : "" }, [
        h("div", { class: "panel" }, [
          h("div", { class: "legend" }, [
            withKinds ? this.kinds() : null,
            h("span", { class: "key", role: "img", "aria-label": "Colours: from little, on the left, to much, on the right", style: { display: withKinds ? "none" : "" } }, [
              h("span", { ref: "low" }, "0%"),
              h("canvas", { ref: "scale", width: 120, height: 12 }),
              h("span", { ref: "high" }, "100%"),
            ]),
            byScore ? null : h("span", { class: "key" }, [h("span", { class: "swatch over" }), "over 100%"]),
            h("span", { class: "key" }, [h("span", { class: "swatch cordoned" }), "cordoned"]),
            h("span", { class: "key" }, [h("span", { class: "swatch tainted" }), "tainted"]),
            h("span", { class: "key" }, [h("span", { class: "swatch none" }), byScore ? "does not fit" : "has none"]),
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
        this.panel(),
      ]),
      h("p", { class: "sr-only", "aria-live": "polite" }, this.told),
    ]);
  },
};
