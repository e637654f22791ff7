// Where each node is on a map: pools as rows, zones as columns, a square cell for each node. Shared by all maps, so that
// a node is at the same place before and after a trial.

import { STEPS } from "/assets/colours.js";

const MIN_CELL = 5;
export const MAX_CELL = 72;
export const LABEL_H = 22;
export const GAP = 14;
const LINE_H = 17;
const LABEL_FONT = "600 12.5px system-ui, sans-serif";

// What all components with a canvas have in common: it is painted again when its room or the theme changes.
export const onCanvas = {
  mounted() {
    this.resizing = new ResizeObserver(() => this.paint());
    this.resizing.observe(this.$refs.area);
    this.themed = new MutationObserver(() => { if ("version" in this) this.version += 1; this.paint(); });
    this.themed.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  },
  unmounted() {
    this.resizing.disconnect();
    this.themed.disconnect();
  },
  methods: {
    // Where the arrow keys lead from a place in an order of cells, `per` in a row; undefined for other keys.
    stepped(event, place, last, per) {
      const to = { ArrowRight: place + 1, ArrowLeft: place - 1, ArrowDown: place + per, ArrowUp: place - per, Home: 0, End: last }[event.key];
      if (to === undefined) return undefined;
      event.preventDefault();
      return Math.max(0, Math.min(last, to));
    },
  },
};

// `columns` are the nodes as the server tells them, `group` is both, pool, zone or none; `order` a list of node numbers.
// `notes` says what else is written beside a pool. Labels get the room that they take, or as many lines.
export function arrange(columns, order, group, width, height, maxCell = MAX_CELL, notes = () => []) {
  const byPool = group === "both" || group === "pool";
  let byZone = group === "both" || group === "zone";
  const zoneCount = columns.zones.names.length;
  const gutter = byPool ? (width < 560 ? 84 : 132) : 0;
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = LABEL_FONT;
  const flat = byZone && (width - gutter) / zoneCount < 56; // too many zones to stand side by side
  const rowNames = [];
  const rowOf = new Map();
  const columnNames = byZone && !flat ? columns.zones.names : [""];
  const blocks = [];
  for (const at of order) {
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
  const rows = rowNames.map((_, row) => row).sort((a, b) => rowNames[a].localeCompare(rowNames[b], "en", { numeric: true }));
  const told = rowNames.map((name, row) => [name, ...notes(blocks[row].flat())]);
  const longest = Math.max(0, ...told.flat().map((text) => measure.measureText(text).width));
  const left = byPool || flat ? Math.min(Math.max(gutter, longest + 16), Math.max(gutter, Math.min(200, width * 0.3))) : 0;
  const labels = told.map((texts) => texts.flatMap((text, at) => wrapped(measure, text, left - 12).map((line) => [line, at === 0])));
  const room = (width - left - GAP * (columnNames.length - 1)) / columnNames.length;
  const heads = columnNames.map((name) => wrapped(measure, name || "no zone", room));
  const top = byZone && !flat ? LABEL_H + LINE_H * (Math.max(...heads.map((lines) => lines.length)) - 1) : 4;
  const wide = (width - left - GAP * (columnNames.length - 1)) / columnNames.length;
  const highest = (row) => blocks[row].reduce((most, members) => Math.max(most, members.length), 0);
  const tall = (cell) => {
    const per = Math.max(1, Math.floor(wide / cell));
    return rows.reduce((sum, row) => sum + Math.max(LINE_H * labels[row].length, Math.ceil(highest(row) / per) * cell) + GAP, top);
  };
  let cell = maxCell;
  const most = Math.max(height, tall(MIN_CELL)); // what labels take is not won back by smaller cells
  while (cell > MIN_CELL && tall(cell) > most) cell -= 1;
  const per = Math.max(1, Math.floor(wide / cell));
  const placed = [], marks = [];
  let y = top;
  for (const row of rows) {
    const high = Math.max(LINE_H * labels[row].length, Math.ceil(highest(row) / per) * cell);
    marks.push({ y, lines: labels[row] });
    blocks[row].forEach((members, column) =>
      placed.push({ row: rowNames[row], column: columnNames[column] || (byZone && !flat ? "no zone" : ""), members, x: left + column * (wide + GAP), y, high, wide }));
    y += high + GAP;
  }
  const where = new Map();
  placed.forEach((block, number) => block.members.forEach((at, place) => where.set(at, [number, place])));
  const side = cell - (cell >= 12 ? 2 : cell >= 7 ? 1 : 0.5);
  return { placed, cell, side, per, left, top, total: y, where, byZone: byZone && !flat, heads, marks, wide };
}

// The upper left corner of a node's cell.
export function spot(layout, at) {
  const [number, place] = layout.where.get(at);
  const block = layout.placed[number];
  return [block.x + (place % layout.per) * layout.cell, block.y + Math.floor(place / layout.per) * layout.cell];
}

// The node under a point, -1 where there is none, or nothing is laid out yet.
export function nodeAt(layout, x, y) {
  const block = layout?.placed.find((each) => x >= each.x && x < each.x + each.wide && y >= each.y && y < each.y + each.high);
  if (!block) return -1;
  const column = Math.floor((x - block.x) / layout.cell);
  if (column >= layout.per) return -1;
  return block.members[Math.floor((y - block.y) / layout.cell) * layout.per + column] ?? -1;
}

// Give a canvas its size in dots of the screen, and return its pen, cleared.
export function penOf(canvas, width, height) {
  const dots = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// The names of pools and zones, and what is told of them.
export function paintLabels(pen, ink, layout) {
  pen.textBaseline = "middle";
  pen.font = LABEL_FONT;
  if (layout.byZone)
    layout.heads.forEach((lines, column) => {
      pen.fillStyle = ink.soft;
      lines.forEach((line, at) => pen.fillText(line, layout.left + column * (layout.wide + GAP), LABEL_H / 2 - 1 + at * LINE_H));
    });
  if (!layout.left) return;
  for (const { y, lines } of layout.marks)
    lines.forEach(([line, isName], at) => {
      pen.font = isName ? LABEL_FONT : "12px system-ui, sans-serif";
      pen.fillStyle = isName ? ink.text : ink.soft;
      pen.fillText(line, 0, y + 8 + at * LINE_H);
    });
}

// A text in lines that fit, broken after a space, a dash, a dot or a slash where that goes.
function wrapped(pen, text, room) {
  const lines = [""];
  for (const part of text.split(/(?<=[-\s./_])/).flatMap((each) => (pen.measureText(each).width > room ? [...each] : [each]))) {
    if (lines.at(-1) && pen.measureText(lines.at(-1) + part).width > room) lines.push("");
    lines[lines.length - 1] += part;
  }
  return lines;
}

// A cell coloured by a value between 0 and 1; more than 1 has a red bar at its top, and no value only a frame.
export function paintCell(pen, ink, colours, x, y, side, value) {
  if (value === null || value === undefined) {
    pen.strokeStyle = ink.none;
    pen.lineWidth = 1;
    pen.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
    return;
  }
  pen.fillStyle = colours[Math.round(Math.min(1, Math.max(0, value)) * STEPS)];
  pen.fillRect(x, y, side, side);
  if (value > 1.0005) {
    pen.fillStyle = ink.over;
    pen.fillRect(x, y, side, Math.max(2, side / 5));
  }
}

export function ring(pen, colour, x, y, side, width) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.strokeRect(x - 0.5, y - 0.5, side + 1, side + 1);
}

// A line across a cordoned node, a corner on one that a taint keeps pods away from.
export function paintMarks(pen, ink, columns, at, x, y, side) {
  if (columns.unschedulable[at]) {
    pen.strokeStyle = ink.focus;
    pen.lineWidth = side >= 12 ? 2 : 1;
    pen.beginPath();
    pen.moveTo(x + 1, y + side - 1);
    pen.lineTo(x + side - 1, y + 1);
    pen.stroke();
  } else if (columns.tainted[at] && side >= 7) {
    pen.fillStyle = ink.mark;
    pen.beginPath();
    pen.moveTo(x + side, y);
    pen.lineTo(x + side, y + side / 3);
    pen.lineTo(x + side - side / 3, y);
    pen.fill();
  }
}

// For each node, what part of its pool's scarcest resource is requested.
export function scarcestShares(columns) {
  const amounts = Object.fromEntries(columns.resources.map((each) => [each.name, each]));
  return columns.names.map((_, at) => {
    const { requested, allocatable } = amounts[scarcestOf(columns, at)] || amounts.cpu;
    return allocatable[at] > 0 ? requested[at] / allocatable[at] : null;
  });
}

export function scarcestOf(columns, at) {
  return columns.scarcest[columns.pools.of[at]] || "cpu";
}

// What part of a resource is requested on some nodes together; null where they have none of it.
export function shareOf(amounts, members) {
  let requested = 0, allocatable = 0;
  for (const at of members) {
    requested += amounts.requested[at];
    allocatable += amounts.allocatable[at];
  }
  return allocatable > 0 ? requested / allocatable : null;
}

// -- pods as blocks ----------------------------------------------------------------------------------------------------

// Lay parts of a whole out in a rectangle, the largest first: each is halved along its longer side by what is in it.
// Calls `paint(item, x, y, width, height)` for each; areas are as the sizes.
export function blocks(items, sizeOf, x, y, width, height, paint) {
  if (!items.length) return;
  if (items.length === 1) {
    paint(items[0], x, y, width, height);
    return;
  }
  const all = items.reduce((sum, item) => sum + sizeOf(item), 0);
  let first = 0, split = 0;
  while (split < items.length - 1 && (split === 0 || first + sizeOf(items[split]) / 2 < all / 2)) first += sizeOf(items[split++]);
  const part = all > 0 ? first / all : split / items.length;
  if (width >= height) {
    blocks(items.slice(0, split), sizeOf, x, y, width * part, height, paint);
    blocks(items.slice(split), sizeOf, x + width * part, y, width * (1 - part), height, paint);
  } else {
    blocks(items.slice(0, split), sizeOf, x, y, width, height * part, paint);
    blocks(items.slice(split), sizeOf, x, y + height * part, width, height * (1 - part), paint);
  }
}
