// Lines over time on a canvas, with the values at the pointer or, with the arrow keys, at a chosen time.
// Where it `follows` an event of the window, that says which time is marked. `times` are labels, `series` are {name, values, unit}; a value may be null where nothing is known.

import { themeOf } from "/assets/colours.js";

const COLOURS = {
  light: ["#1a66b8", "#b4520b", "#14693a", "#8a3aa5", "#a3211d", "#4b5663"],
  dark: ["#6cb0f5", "#ffae57", "#74d39b", "#d59bef", "#ff9c94", "#b3bdc8"],
};
const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3], [4, 2], [1, 4]];
const INK = { light: { text: "#505b68", line: "#d5dae1" }, dark: { text: "#a9b3bf", line: "#2d3640" } };
const LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 24;

// The distance between two lines of the grid: at most five of them, at round numbers.
function gridStep(high) {
  if (high <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(high / 5));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => high / step <= 5);
}

function short(value) {
  if (value === null || value === undefined) return "unknown";
  const size = Math.abs(value);
  return size >= 1e6 ? `${+(value / 1e6).toPrecision(3)}M` : size >= 1e4 ? `${+(value / 1e3).toPrecision(3)}k` : String(+value.toPrecision(size >= 1 ? 4 : 2));
}

export default {
  props: { label: String, times: Array, series: Array, height: Number, follows: String },
  data() {
    return { at: null, told: "", marker: -1 };
  },
  watch: { times() { this.paint(); }, series() { this.paint(); }, marker() { this.paint(); } },
  mounted() {
    this.resizing = new ResizeObserver(() => this.paint());
    this.resizing.observe(this.$refs.area);
    this.themed = new MutationObserver(() => { this.paint(); this.$forceUpdate(); });
    this.themed.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.follow = (event) => (this.marker = event.detail);
    if (this.follows) window.addEventListener(this.follows, this.follow);
    this.paint();
  },
  unmounted() {
    this.resizing.disconnect();
    this.themed.disconnect();
    if (this.follows) window.removeEventListener(this.follows, this.follow);
  },
  methods: {
    theme() {
      return themeOf(document.body);
    },
    x(at, width) {
      return LEFT + (this.times.length > 1 ? at / (this.times.length - 1) : 1) * (width - LEFT - RIGHT);
    },
    paint() {
      const canvas = this.$refs.canvas;
      if (!canvas) return;
      const width = this.$refs.area.clientWidth, height = this.height || 220, dots = window.devicePixelRatio || 1;
      canvas.width = Math.round(width * dots);
      canvas.height = Math.round(height * dots);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d"), ink = INK[this.theme()], colours = COLOURS[this.theme()];
      pen.setTransform(dots, 0, 0, dots, 0, 0);
      pen.font = "12px system-ui, sans-serif";
      const most = this.series.reduce((so, { values }) => values.reduce((a, b) => Math.max(a, b ?? 0), so), 0);
      const grid = gridStep(most);
      const high = Math.max(1, Math.ceil(most / grid)) * grid;
      const y = (value) => height - BOTTOM - (value / high) * (height - TOP - BOTTOM);
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      for (let value = 0; value <= high * 1.001; value += grid) {
        pen.strokeStyle = ink.line;
        pen.lineWidth = 1;
        pen.beginPath();
        pen.moveTo(LEFT, Math.round(y(value)) + 0.5);
        pen.lineTo(width - RIGHT, Math.round(y(value)) + 0.5);
        pen.stroke();
        pen.fillStyle = ink.text;
        pen.fillText(short(value), LEFT - 8, y(value));
      }
      const count = this.times.length, marks = Math.min(count, Math.max(2, Math.floor(width / 160)));
      pen.textBaseline = "alphabetic";
      for (let mark = 0; mark < marks; mark += 1) {
        const at = marks > 1 ? Math.round((mark * (count - 1)) / (marks - 1)) : 0;
        pen.textAlign = mark === 0 ? "left" : mark === marks - 1 ? "right" : "center";
        pen.fillText(this.times[at] ?? "", this.x(at, width), height - 6);
      }
      this.series.forEach(({ values }, number) => {
        pen.strokeStyle = colours[number % colours.length];
        pen.setLineDash(DASHES[number % DASHES.length]);
        pen.lineWidth = 2;
        pen.lineJoin = "round";
        pen.beginPath();
        let drawing = false;
        const step = Math.max(1, Math.floor(values.length / (2 * width)));
        for (let at = 0; at < values.length; at += step) {
          const value = values[at];
          if (value === null || value === undefined) { drawing = false; continue; }
          drawing ? pen.lineTo(this.x(at, width), y(value)) : pen.moveTo(this.x(at, width), y(value));
          drawing = true;
        }
        pen.stroke();
      });
      pen.setLineDash([]);
      const lit = this.at ?? (this.marker >= 0 ? this.marker : null);
      if (lit !== null && lit < count) {
        pen.strokeStyle = ink.text;
        pen.lineWidth = 1;
        pen.beginPath();
        pen.moveTo(Math.round(this.x(lit, width)) + 0.5, TOP);
        pen.lineTo(Math.round(this.x(lit, width)) + 0.5, height - BOTTOM);
        pen.stroke();
      }
    },
    moved(event) {
      const width = this.$refs.area.clientWidth;
      const place = Math.round(((event.offsetX - LEFT) / Math.max(1, width - LEFT - RIGHT)) * (this.times.length - 1));
      this.at = this.times.length ? Math.min(this.times.length - 1, Math.max(0, place)) : null;
      this.paint();
    },
    left() {
      this.at = null;
      this.paint();
    },
    pressed(event) {
      const last = this.times.length - 1, now = this.at ?? last + 1;
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
      if (to === undefined || last < 0) return;
      event.preventDefault();
      this.at = Math.min(last, Math.max(0, to));
      this.told = `${this.times[this.at]}: ${this.series.map(({ name, values }) => `${name} ${short(values[this.at])}`).join(", ")}`;
      this.paint();
    },
  },
  render() {
    const h = Vue.h;
    const at = this.at ?? (this.marker >= 0 ? this.marker : this.times.length - 1);
    const colours = COLOURS[this.theme()];
    return h("figure", { class: "line-chart" }, [
      h("figcaption", [
        h("strong", this.label),
        ...this.series.map(({ name, values, unit }, number) =>
          h("span", { class: "key", key: name }, [
            h("svg", { width: 22, height: 8, "aria-hidden": "true" }, h("line", { x1: 0, x2: 22, y1: 4, y2: 4, stroke: colours[number % colours.length], "stroke-width": 2.5, "stroke-dasharray": DASHES[number % DASHES.length].join(" ") })),
            `${name} `, h("b", `${short(values[at])}${unit ? ` ${unit}` : ""}`),
          ])),
        h("span", { class: "time" }, this.times[at] ?? ""),
      ]),
      h("div", { ref: "area" }, h("canvas", {
        ref: "canvas", tabindex: 0, role: "img",
        "aria-label": `${this.label} over time: ${this.series.map(({ name, values }) => `${name} now ${short(values[values.length - 1])}`).join(", ")}. The arrow keys tell earlier values.`,
        onMousemove: this.moved, onMouseleave: this.left, onKeydown: this.pressed, onBlur: this.left,
      })),
      h("p", { class: "sr-only", "aria-live": "polite" }, this.told),
    ]);
  },
};
