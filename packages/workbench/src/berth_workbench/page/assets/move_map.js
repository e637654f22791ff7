// A cluster before and after: two maps with every node at the same place, and a line for each pod that goes elsewhere.
// `nodes` has for every node of either its name, pool and zone, what part of its pool's scarcest resource was and is requested
// (null where it is not there), and how many pods left and came; `moves` are pairs of node numbers with a count, -1 for nowhere. Where they are
// made one after the other, `steps` tells of each in words, and a slider goes through them.

import { percent } from "/assets/numbers.js";
import { INK, RAMPS, ramp, themeOf } from "/assets/colours.js";
import { arrange, nodeAt, onCanvas, paintCell, paintLabels, penOf, ring, spot } from "/assets/map_layout.js";

const STEP_MS = 16;
const PLAY_MS = 2400;
const STEPS_MS = 12000; // for all of a plan's steps together, but none is shorter than half a second

export default {
  mixins: [onCanvas],
  props: { nodes: Object, moves: Array, label: String, steps: Array, arcs: Boolean },
  data() {
    return { tip: null, playing: false, progress: 1, at: this.moves.length, chosen: -1, told: "" };
  },
  mounted() {
    this.paint();
    performance.mark("berth-moves-painted");
  },
  unmounted() {
    clearInterval(this.timer);
  },
  methods: {
    paint() {
      for (const side of ["before", "after"]) this.paintSide(side);
    },
    paintSide(side) {
      const canvas = this.$refs[side];
      if (!canvas) return;
      const theme = themeOf(document.body), ink = INK[theme], colours = ramp(RAMPS[theme]);
      const { nodes } = this;
      const width = canvas.parentElement.clientWidth;
      const all = nodes.names.map((_, at) => at);
      const layout = arrange(nodes, all, "both", width, Math.max(260, window.innerHeight * 0.5), 30, (members) => [this.resourceOf(members[0])]);
      this.layout = layout;
      const pen = penOf(canvas, width, Math.ceil(layout.total));
      paintLabels(pen, ink, layout);
      const gone = (at) => nodes.after[at] === null && nodes.before[at] !== null;
      for (const at of all) {
        const [x, y] = spot(layout, at);
        const there = side === "after" && this.isWaiting(at) ? nodes.before[at] : nodes[side][at];
        if (there === null && side === "after" && gone(at)) {
          pen.strokeStyle = ink.over;
          pen.lineWidth = 1.5;
          pen.strokeRect(x + 1, y + 1, layout.side - 2, layout.side - 2);
          pen.beginPath();
          pen.moveTo(x + 1, y + 1);
          pen.lineTo(x + layout.side - 1, y + layout.side - 1);
          pen.stroke();
          continue;
        }
        if (there !== null) paintCell(pen, ink, colours, x, y, layout.side, there);
        if (side === "before" && nodes.left[at]) ring(pen, ink.over, x, y, layout.side, 2);
        if (side === "after" && (nodes.came[at] || nodes.before[at] === null)) ring(pen, ink.mark, x, y, layout.side, 2);
      }
      if (side === "after") this.paintMoves(pen, ink, layout);
      const lit = this.hover ?? this.chosen;
      if (lit >= 0 && layout.where.has(lit)) ring(pen, ink.focus, ...spot(layout, lit), layout.side, 2.5);
    },
    paintMoves(pen, ink, layout) {
      const middle = (at) => spot(layout, at).map((place) => place + layout.side / 2);
      const lit = this.hover ?? this.chosen;
      for (const [number, [from, to, count]] of this.moves.entries()) {
        if (from < 0 || to < 0 || number >= this.at) continue;
        const [ax, ay] = middle(from), [bx, by] = middle(to);
        const bend = Math.min(60, Math.hypot(bx - ax, by - ay) / 4);
        const isLit = lit < 0 || lit === from || lit === to;
        if (!this.arcs && lit !== from && lit !== to && !this.playing) continue; // of many, those of the node that is looked at
        pen.globalAlpha = isLit ? (lit < 0 ? Math.max(0.07, Math.min(0.85, 25 / this.moves.length)) : 0.9) : 0.03;
        pen.strokeStyle = ink.mark;
        pen.lineWidth = Math.min(4, 1 + Math.log2(count));
        const [cx, cy] = [(ax + bx) / 2, (ay + by) / 2 - bend];
        const until = this.steps.length && number < this.at - 1 ? 1 : this.progress;
        pen.beginPath();
        pen.moveTo(ax, ay);
        // The part of the curve that has been travelled, cut by de Casteljau's construction.
        const [px, py] = [ax + (cx - ax) * until, ay + (cy - ay) * until];
        const [qx, qy] = [cx + (bx - cx) * until, cy + (by - cy) * until];
        const [ex, ey] = [px + (qx - px) * until, py + (qy - py) * until];
        pen.quadraticCurveTo(px, py, ex, ey);
        pen.stroke();
        pen.beginPath();
        pen.arc(ex, ey, isLit ? 2.5 : 1, 0, 7);
        pen.fillStyle = ink.mark;
        pen.fill();
      }
      pen.globalAlpha = 1;
      for (const [from, to, count] of this.moves)
        if (from >= 0 && to < 0) {
          const [x, y] = middle(from);
          pen.fillStyle = ink.over;
          pen.beginPath();
          pen.arc(x, y, Math.min(layout.side / 2, 3 + Math.log2(count)), 0, 7);
          pen.fill();
        }
    },
    // Whether a move of this node is still to come, so that it is as full as before.
    isWaiting(at) {
      return this.moves.slice(this.at).some(([from, to]) => from === at || to === at);
    },
    go(at) {
      this.at = Math.max(0, Math.min(this.moves.length, at));
      this.told = this.steps[this.at - 1] || "";
      this.paint();
    },
    play() {
      clearInterval(this.timer);
      if (this.playing) {
        this.playing = false;
        this.progress = 1;
        return;
      }
      this.playing = true;
      this.progress = 0;
      const each = this.steps.length ? Math.max(500, STEPS_MS / this.steps.length) : PLAY_MS;
      if (this.steps.length) this.go(this.at >= this.moves.length ? 1 : this.at + 1);
      this.timer = setInterval(() => {
        this.progress = Math.min(1, this.progress + STEP_MS / each);
        if (this.progress >= 1 && this.steps.length && this.at < this.moves.length) {
          this.progress = 0;
          this.go(this.at + 1);
        } else if (this.progress >= 1) {
          clearInterval(this.timer);
          this.playing = false;
        }
        this.paintSide("after");
      }, STEP_MS);
    },
    resourceOf(at) {
      return this.nodes.scarcest[this.nodes.pools.names[this.nodes.pools.of[at]]] || "cpu";
    },
    describe(at) {
      const { nodes } = this;
      const was = nodes.before[at] === null ? "was not there" : `${this.resourceOf(at)} ${percent(nodes.before[at])} before`;
      const is = nodes.after[at] === null ? "is gone" : `${percent(nodes.after[at])} after`;
      const moved = [nodes.left[at] && `${nodes.left[at]} left`, nodes.came[at] && `${nodes.came[at]} came`].filter(Boolean).join(", ");
      return `${nodes.names[at]}: ${was}, ${is}${moved ? `; ${moved}` : ""}`;
    },
    moved(event) {
      const at = this.layout ? nodeAt(this.layout, event.offsetX, event.offsetY) : -1;
      this.hover = at >= 0 ? at : undefined;
      this.show(at, event.currentTarget);
    },
    show(at, canvas) {
      if (at < 0) this.tip = null;
      else {
        const [x, y] = spot(this.layout, at);
        const left = canvas.parentElement.offsetLeft + Math.min(x + this.layout.cell + 6, Math.max(0, canvas.clientWidth - 240));
        this.tip = { text: this.describe(at), x: left, y: canvas.parentElement.offsetTop + y + this.layout.cell + 6 };
      }
      this.paint();
    },
    pressed(event) {
      const order = [...this.layout.where.keys()];
      const place = order.indexOf(this.chosen);
      const to = this.stepped(event, place, order.length - 1, this.layout.per);
      if (to === undefined) return;
      this.chosen = order[to];
      this.told = this.describe(this.chosen);
      this.show(this.chosen, event.currentTarget);
    },
  },
  render() {
    const h = Vue.h;
    const side = (name, text) => h("figure", [
      h("figcaption", text),
      h("canvas", {
        ref: name, class: "map", tabindex: 0, role: "application", "aria-roledescription": "map of nodes", "aria-label": `${text}. ${this.label} The arrow keys go from node to node.`,
        onMousemove: this.moved, onMouseleave: () => { this.hover = undefined; this.show(-1); }, onKeydown: this.pressed,
        onBlur: () => { this.chosen = -1; this.show(-1); },
      }),
    ]);
    return h("div", { class: "move-map" }, [
      h("div", { class: "legend" }, [
        h("span", { class: "key" }, [h("span", { class: "swatch ring-left" }), "pods leave"]),
        h("span", { class: "key" }, [h("span", { class: "swatch ring-came" }), "pods come"]),
        h("span", { class: "key" }, [h("span", { class: "dot", style: { background: "var(--over)", borderRadius: "50%" } }), "left without a node"]),
        h("span", { class: "key" }, [h("span", { class: "swatch gone" }), "node is gone"]),
        h("button", { type: "button", class: "plain", onClick: this.play }, this.playing ? "Pause" : "Play the moves"),
      ]),
      this.steps.length
        ? h("div", { class: "toolbar" }, [
            h("label", { class: "field slider" }, [
              h("span", "Step"),
              h("input", { type: "range", name: "step", min: 0, max: this.moves.length, step: 1, value: this.at, "aria-valuetext": this.steps[this.at - 1] || "before the first", onInput: (event) => this.go(Number(event.target.value)) }),
            ]),
            h("strong", { class: "when" }, this.steps[this.at - 1] || "before the first"),
          ])
        : null,
      h("div", { class: "map-area two-maps", ref: "area" }, [side("before", "Before"), side("after", "After"),
        this.tip && h("div", { class: "tip", "aria-hidden": "true", style: { left: `${this.tip.x}px`, top: `${this.tip.y}px` } }, this.tip.text)]),
      h("p", { class: "sr-only", "aria-live": "polite" }, this.told),
    ]);
  },
};
