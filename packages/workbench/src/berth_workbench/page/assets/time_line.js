// What every node carried over the time of a simulation, or over the last hour of a scheduler at work: a cell for each node,
// and a slider through the samples.
// Each step is told to the charts beside it by the event "berth-time" of the window.

import { fetched, percent } from "/assets/numbers.js";
import { INK, RAMPS, paintScale, ramp, themeOf } from "/assets/colours.js";
import { arrange, nodeAt, onCanvas, paintCell, penOf, ring, spot } from "/assets/map_layout.js";

const EVERY_MS = 120;

function clock(seconds) {
  const whole = Math.floor(seconds), two = (value) => String(value).padStart(2, "0");
  return `day ${Math.floor(whole / 86400) + 1}, ${two(Math.floor(whole / 3600) % 24)}:${two(Math.floor(whole / 60) % 60)}`;
}

function wallTime(seconds) {
  return new Date(seconds * 1000).toTimeString().slice(0, 8);
}

export default {
  mixins: [onCanvas],
  props: { src: String, refreshS: Number },
  data() {
    return { at: 0, count: 0, playing: false, problem: "", tip: null, told: "" };
  },
  created() {
    this.line = null;
    this.focus = -1;
  },
  async mounted() {
    await this.load();
    if (this.refreshS > 0) this.fetching = setInterval(() => document.hidden || this.playing || this.load(), this.refreshS * 1000);
  },
  unmounted() {
    clearInterval(this.timer);
    clearInterval(this.fetching);
  },
  methods: {
    // Who stands at the end stays there; who looks at an earlier moment goes on looking at it.
    async load() {
      const [line, problem] = await fetched(this.src);
      this.problem = problem && `The time line cannot be loaded: ${problem}`;
      if (!line || !line.times.length) return;
      const first = this.line === null;
      const follows = first ? line.isWallTime : this.at === this.count - 1;
      const before = first ? 0 : this.line.times[this.at];
      this.line = line;
      this.count = line.times.length;
      const kept = line.times.findIndex((time) => time >= before);
      this.go(follows ? this.count - 1 : Math.max(0, kept));
      if (first) requestAnimationFrame(() => performance.mark("berth-map-painted"));
    },
    full() {
      return this.line.full || 255;
    },
    share(value) {
      return percent(value / this.full());
    },
    names() {
      let found = [];
      for (const { from, names } of this.line.nodes) if (from <= this.at) found = names;
      return found;
    },
    levels() {
      return Uint8Array.from(atob(this.line.levels[this.at] || ""), (letter) => letter.charCodeAt(0));
    },
    go(at) {
      this.at = Math.max(0, Math.min(this.count - 1, at));
      window.dispatchEvent(new CustomEvent("berth-time", { detail: { at: this.at, seconds: this.line.times[this.at] } }));
      this.paint();
    },
    play() {
      this.playing = !this.playing;
      clearInterval(this.timer);
      if (!this.playing) return;
      if (this.at >= this.count - 1) this.go(0);
      this.timer = setInterval(() => (this.at < this.count - 1 ? this.go(this.at + 1) : this.play()), EVERY_MS);
    },
    paint() {
      const canvas = this.$refs.canvas;
      if (!this.line || !canvas) return;
      const theme = themeOf(document.body), ink = INK[theme], colours = ramp(RAMPS[theme]);
      const names = this.names(), levels = this.levels(), width = this.$refs.area.clientWidth;
      const alone = { names: [""], of: names.map(() => 0) };
      const all = names.map((_, node) => node);
      const layout = (this.layout = arrange({ names, pools: alone, zones: alone }, all, "none", width, Math.max(220, window.innerHeight * 0.42), 36));
      const pen = penOf(canvas, width, Math.ceil(layout.total));
      paintScale(this.$refs.scale, colours);
      for (const node of all) paintCell(pen, ink, colours, ...spot(layout, node), layout.side, levels[node] / this.full());
      const lit = this.hover ?? this.focus;
      if (layout.where.has(lit)) ring(pen, ink.focus, ...spot(layout, lit), layout.side, 2);
    },
    describe(node) {
      return `${this.names()[node]}: ${this.share(this.levels()[node])} of its scarcest resource requested`;
    },
    show(node) {
      this.tip = null;
      if (this.layout?.where.has(node)) {
        const [x, y] = spot(this.layout, node);
        this.tip = { text: this.describe(node), x: Math.min(x, Math.max(0, this.$refs.area.clientWidth - 260)), y: y + this.layout.cell + 6 };
      }
      this.paint();
    },
    moved(event) {
      this.hover = nodeAt(this.layout, event.offsetX, event.offsetY);
      this.show(this.hover);
    },
    left() {
      this.hover = undefined;
      this.show(-1);
    },
    pressed(event) {
      const to = this.layout ? this.stepped(event, this.focus, this.names().length - 1, this.layout.per) : undefined;
      if (to === undefined) return;
      this.focus = to;
      this.told = this.describe(this.focus);
      this.show(this.focus);
    },
  },
  render() {
    const h = Vue.h;
    const when = this.line ? (this.line.isWallTime ? wallTime : clock)(this.line.times[this.at]) : "";
    return h("div", { class: "time-line" }, [
      h("div", { class: "toolbar" }, [
        h("button", { type: "button", onClick: this.play, disabled: !this.count }, this.playing ? "Pause" : "Play"),
        h("label", { class: "field slider" }, [
          h("span", "Time"),
          h("input", { type: "range", name: "time", min: 0, max: Math.max(0, this.count - 1), step: 1, value: this.at, "aria-valuetext": when, onInput: (event) => this.go(Number(event.target.value)) }),
        ]),
        h("strong", { class: "when" }, when),
        h("div", { class: "legend", role: "img", "aria-label": "Colours: from 0% of a node's scarcest resource requested, on the left, to 100%" }, [
          h("span", "Scarcest resource requested 0%"), h("canvas", { ref: "scale", width: 120, height: 12 }), h("span", "100%"),
        ]),
      ]),
      h("p", { class: "problem", role: "alert", hidden: !this.problem }, this.problem),
      h("div", { class: "map-area", ref: "area" }, [
        h("canvas", {
          ref: "canvas", class: "map", tabindex: 0, role: "application", "aria-roledescription": "map of nodes",
          "aria-label": this.line ? `What part of its scarcest resource is requested on each of ${this.names().length} nodes, ${when}. The arrow keys go from node to node.` : "Map of the nodes, not loaded yet",
          onMousemove: this.moved, onMouseleave: this.left, onKeydown: this.pressed, onBlur: () => { this.focus = -1; this.show(-1); },
        }),
        this.tip && h("div", { class: "tip", "aria-hidden": "true", style: { left: `${this.tip.x}px`, top: `${this.tip.y}px` } }, this.tip.text),
      ]),
      h("p", { class: "sr-only", "aria-live": "polite" }, this.told),
    ]);
  },
};
