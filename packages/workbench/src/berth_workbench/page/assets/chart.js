// A chart: ECharts draws it, and here is what people who do not see it are told, and who use the keyboard.
// `kind` is line (values over `labels`, which are times), bar (values by `labels`), points (pairs, with a name each) or flows
// (from where to where, and how many).
// `series` are {name, values, unit}; a value may be null where nothing is known. Where it `follows` an event of the window,
// that says which label is marked: by number, or by time where the labels' `seconds` are given.

import { echarts } from "nicegui-echart";
import { KINDS, themeOf } from "/assets/colours.js";
import { number } from "/assets/numbers.js";

const DASHES = ["solid", "dashed", "dotted", [10, 3, 2, 3], [4, 2], [1, 4]];
const INK = { light: { text: "#505b68", line: "#d5dae1", ground: "#ffffff" }, dark: { text: "#a9b3bf", line: "#2d3640", ground: "#191f27" } };

export default {
  props: { kind: String, label: String, labels: Array, series: Array, height: Number, follows: String, seconds: Array, stacked: Boolean, axes: Array, most: Number },
  data() {
    return { at: null, told: "", marker: -1, dark: false };
  },
  watch: {
    labels() { this.draw(); },
    series() { this.draw(); },
    marker() { this.draw(); },
    at() { this.draw(); },
  },
  mounted() {
    this.chart = echarts.init(this.$refs.plot, null, { renderer: "canvas" });
    this.chart.on("updateAxisPointer", (event) => {
      const axis = event.axesInfo?.[0];
      if (this.kind === "line") this.at = axis ? axis.value : null;
    });
    this.chart.on("globalout", () => (this.at = null));
    this.resizing = new ResizeObserver(() => this.chart.resize());
    this.resizing.observe(this.$refs.plot);
    this.themed = new MutationObserver(() => { this.draw(); this.$forceUpdate(); });
    this.themed.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.follow = (event) => (this.marker = this.seconds?.length ? this.seconds.findLastIndex((time) => time <= event.detail.seconds + 0.5) : event.detail.at);
    if (this.follows) window.addEventListener(this.follows, this.follow);
    this.draw();
  },
  unmounted() {
    this.resizing.disconnect();
    this.themed.disconnect();
    if (this.follows) window.removeEventListener(this.follows, this.follow);
    this.chart.dispose();
  },
  methods: {
    colours() {
      return KINDS[themeOf(document.body)];
    },
    value(ink) {
      return {
        type: "value", min: 0, max: this.most > 0 ? this.most : undefined, axisLabel: { color: ink.text, formatter: number }, splitLine: { lineStyle: { color: ink.line } },
      };
    },
    draw() {
      if (!this.chart) return;
      const ink = INK[themeOf(document.body)];
      const common = {
        animation: false,
        color: this.colours(),
        textStyle: { fontFamily: "system-ui, sans-serif", color: ink.text },
        tooltip: { trigger: this.kind === "points" ? "item" : "axis", confine: true, renderMode: "richText", valueFormatter: number, backgroundColor: ink.ground, textStyle: { color: ink.text } },
        grid: { left: 8, right: 16, top: 12, bottom: 4, containLabel: true },
      };
      this.chart.setOption({ ...common, ...this[this.kind](ink) }, true);
    },
    line(ink) {
      const lit = this.at ?? (this.marker >= 0 ? this.marker : null);
      return {
        xAxis: { type: "category", data: this.labels, boundaryGap: false, axisLabel: { color: ink.text, hideOverlap: true, alignMinLabel: "left", alignMaxLabel: "right" }, axisLine: { lineStyle: { color: ink.line } } },
        yAxis: this.value(ink),
        series: this.series.map(({ name, values }, number) => ({
          name, type: "line", data: values, showSymbol: values.length < 2, sampling: "max", stack: this.stacked ? "all" : undefined, areaStyle: this.stacked ? {} : undefined,
          lineStyle: { width: 2, type: DASHES[number % DASHES.length] },
          markLine: number === 0 && lit !== null ? { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: ink.text, type: "solid" }, data: [{ xAxis: lit }] } : undefined,
        })),
      };
    },
    bar(ink) {
      const longest = 10 + 6.6 * Math.max(0, ...this.labels.map((label) => label.length));
      return {
        xAxis: this.value(ink),
        yAxis: { type: "category", data: this.labels, inverse: true, axisLabel: { color: ink.text, width: Math.min(longest, Math.max(90, this.$refs.plot.clientWidth * 0.4)), overflow: "break", lineHeight: 12 }, axisLine: { lineStyle: { color: ink.line } } },
        series: this.series.map(({ name, values }) => ({ name, type: "bar", data: values, stack: this.stacked ? "all" : undefined, barMaxWidth: 22 })),
      };
    },
    points(ink) {
      const [across, up] = this.axes;
      const named = { color: ink.text, nameLocation: "middle" };
      return {
        grid: { left: 40, right: 24, top: 16, bottom: 32, containLabel: true },
        tooltip: { trigger: "item", confine: true, renderMode: "richText", backgroundColor: ink.ground, textStyle: { color: ink.text }, formatter: (at) => `${at.data.name}\n${across} ${number(at.data.value[0])}, ${up} ${number(at.data.value[1])}` },
        xAxis: { ...this.value(ink), min: undefined, scale: true, name: across, nameGap: 28, nameTextStyle: named, nameLocation: "middle" },
        yAxis: { ...this.value(ink), min: undefined, scale: true, name: up, nameGap: 48, nameTextStyle: named, nameLocation: "middle" },
        series: this.series.map(({ name, values }) => ({
          name, type: "scatter", symbolSize: 11, data: values.map(([label, x, y]) => ({ name: label, value: [x, y] })),
        })),
      };
    },
    flows(ink) {
      const moves = this.series[0].values, from = new Set(moves.map((move) => move[0])), to = new Set(moves.map((move) => move[1]));
      const node = (side) => (name) => ({ name: `${side} ${name}`, depth: side === "<" ? 0 : 1, itemStyle: { color: name === "nowhere" ? "#c0241f" : this.colours()[[...new Set([...from, ...to])].indexOf(name) % 8] }, label: { position: side === "<" ? "right" : "left" } });
      return {
        tooltip: { trigger: "item", confine: true, renderMode: "richText", backgroundColor: ink.ground, textStyle: { color: ink.text }, formatter: (at) => (at.dataType === "edge" ? `${at.data.source.slice(2)} → ${at.data.target.slice(2)}\n${number(at.data.value)} pods` : `${at.name.slice(2)}\n${number(at.value)} pods`) },
        series: [{
          type: "sankey", left: 4, right: 4, top: 8, bottom: 8, nodeGap: 10, nodeWidth: 14, draggable: false, emphasis: { focus: "adjacency" },
          data: [...[...from].map(node("<")), ...[...to].map(node(">"))],
          links: moves.map(([source, target, value]) => ({ source: `< ${source}`, target: `> ${target}`, value })),
          label: { color: ink.text, fontSize: 13, formatter: (at) => `${at.name.slice(2)}  ${number(at.value)}` },
          lineStyle: { color: "source", opacity: 0.35, curveness: 0.5 },
        }],
      };
    },
    pressed(event) {
      const last = this.labels.length - 1, now = this.at ?? last + 1;
      const to = { ArrowLeft: now - 1, ArrowUp: now - 1, ArrowRight: now + 1, ArrowDown: now + 1, Home: 0, End: last }[event.key];
      if (to === undefined || last < 0 || this.kind === "points") return;
      event.preventDefault();
      this.at = Math.min(last, Math.max(0, to));
      this.told = `${this.labels[this.at]}: ${this.series.map(({ name, values }) => `${name} ${number(values[this.at])}`).join(", ")}`;
    },
    summary() {
      if (this.kind === "line") {
        const now = this.series.map(({ name, values }) => `${name} now ${number(values[values.length - 1])}`).join(", ");
        return `${this.label} over time: ${now}. The arrow keys tell earlier values.`;
      }
      if (this.kind === "bar") {
        const most = this.labels.slice(0, 5).map((label, at) => `${label} ${this.series.map(({ values }) => number(values[at])).join(" and ")}`).join(", ");
        return `${this.label}: ${most}${this.labels.length > 5 ? " and more" : ""}. The arrow keys tell each.`;
      }
      if (this.kind === "flows") return `${this.label}: ${this.series[0].values.slice(0, 8).map(([from, to, count]) => `${number(count)} from ${from} to ${to}`).join(", ")}.`;
      return `${this.label}: ${this.series.map(({ name, values }) => `${name}, ${number(values.length)} points`).join("; ")}.`;
    },
  },
  render() {
    const h = Vue.h;
    const isLine = this.kind === "line";
    const at = this.at ?? (this.marker >= 0 ? this.marker : this.labels.length - 1);
    const colours = this.colours();
    const mark = (place) => isLine
      ? h("svg", { width: 22, height: 8, "aria-hidden": "true" }, h("line", { x1: 0, x2: 22, y1: 4, y2: 4, stroke: colours[place % colours.length], "stroke-width": 2.5, "stroke-dasharray": [[], [6, 4], [2, 3], [10, 3, 2, 3], [4, 2], [1, 4]][place % 6].join(" ") }))
      : h("span", { class: "dot", style: { background: colours[place % colours.length] }, "aria-hidden": "true" });
    return h("figure", { class: "chart" }, [
      h("figcaption", [
        this.label ? h("strong", this.label) : null,
        ...(this.series.length > 1 || isLine ? this.series : []).map(({ name, values, unit }, place) =>
          h("span", { class: "key", key: name }, [
            mark(place), `${name} `, isLine ? h("b", `${number(values[at])}${unit ? ` ${unit}` : ""}`) : null,
          ])),
        isLine ? h("span", { class: "time" }, this.labels[at] ?? "") : null,
      ]),
      h("div", {
        ref: "plot", class: "plot", tabindex: 0, role: "img", "aria-label": this.summary(), style: { height: `${this.height || 220}px` },
        onKeydown: this.pressed, onBlur: () => (this.at = null),
      }),
      h("p", { class: "sr-only", "aria-live": "polite" }, this.told),
    ]);
  },
};
