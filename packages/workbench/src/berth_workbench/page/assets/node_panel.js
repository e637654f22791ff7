// What stands beside the map: one node with its resources, taints, labels and pods, and what can be asked about it.

import { amount, percent } from "/assets/numbers.js";

const PODS_SHOWN = 200;
const DEVICES_DRAWN = 32;

function bar(h, share) {
  const part = Math.min(1, share || 0);
  return h("span", { class: share > 1.0005 ? "bar over" : "bar", "aria-hidden": "true" }, h("span", { style: { width: `${part * 100}%` } }));
}

// Devices, such as GPUs: a square for each, filled where a pod has it.
function devices(h, used, all) {
  return h("span", { class: "devices", "aria-hidden": "true" }, Array.from({ length: all }, (_, at) => h("i", { class: at < used ? "used" : "" })));
}

function resources(h, node) {
  const names = Object.keys(node.requested).sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const rows = names.map((name) => [name, node.requested[name] || 0, node.allocatable[name] || 0]);
  rows.push(["pods", node.pods.length, node.allowedPods]);
  return h("table", { class: "compact" }, [
    h("thead", h("tr", [h("th", { scope: "col" }, "Resource"), ...["Requested", "of", ""].map((text) => h("th", { scope: "col", class: "number" }, text || "Share"))])),
    h("tbody", rows.map(([name, requested, allocatable]) => {
      const share = allocatable > 0 ? requested / allocatable : null;
      return h("tr", [
        h("th", { scope: "row" }, name),
        h("td", { class: "number" }, amount(name, requested)),
        h("td", { class: "number" }, amount(name, allocatable)),
        h("td", { class: share > 1.0005 ? "number bad" : "number" }, [name.includes("/") && allocatable > 0 && allocatable <= DEVICES_DRAWN ? devices(h, requested, allocatable) : bar(h, share), " ", percent(share)]),
      ]);
    })),
  ]);
}

function rank(name) {
  return name === "cpu" ? 0 : name === "memory" ? 1 : 2;
}

// How many pods, and how much CPU and memory, a pod of each priority could preempt here.
function preemption(h, node) {
  const levels = [...new Set(node.pods.map((pod) => pod.priority))].sort((a, b) => b - a);
  if (levels.length < 2) return null;
  const rows = levels.slice(0, -1).map((level) => {
    const lower = node.pods.filter((pod) => pod.priority < level);
    const sum = (name) => lower.reduce((all, pod) => all + (pod.requests[name] || 0), 0);
    return [String(level), `${lower.length}`, amount("cpu", sum("cpu")), amount("memory", sum("memory"))];
  });
  return h("details", [
    h("summary", "Who would have to make way"),
    h("p", { class: "soft" }, "A pod of this priority may preempt those of lower ones, budgets aside:"),
    h("table", { class: "compact" }, [
      h("thead", h("tr", ["Priority", "Pods", "CPU", "Memory"].map((text) => h("th", { scope: "col", class: "number" }, text)))),
      h("tbody", rows.map((row) => h("tr", row.map((cell) => h("td", { class: "number" }, cell))))),
    ]),
  ]);
}

function pods(h, node, colourOf) {
  const shown = node.pods.slice(0, PODS_SHOWN);
  if (!shown.length) return h("p", { class: "soft" }, "No pods are on this node.");
  return h("div", [
    h("table", { class: "compact pods" }, [
      h("caption", shown.length < node.pods.length ? `${shown.length} of ${node.pods.length} pods, the highest priority first` : `${shown.length} pod${shown.length === 1 ? "" : "s"}, the highest priority first`),
      h("thead", h("tr", [h("th", { scope: "col" }, "Pod"), ...["Priority", "CPU", "Memory"].map((text) => h("th", { scope: "col", class: "number" }, text))])),
      h("tbody", shown.map((pod) => {
        const [namespace, name] = pod.pod.split("/");
        return h("tr", [
          h("th", { scope: "row" }, [
            colourOf ? h("span", { class: "dot", style: { background: colourOf(namespace) }, "aria-hidden": "true" }) : null,
            h("a", { href: `/pods/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, title: pod.workload }, pod.pod),
          ]),
          h("td", { class: "number" }, String(pod.priority)),
          h("td", { class: "number" }, amount("cpu", pod.requests.cpu || 0)),
          h("td", { class: "number" }, amount("memory", pod.requests.memory || 0)),
        ]);
      })),
    ]),
  ]);
}

// `node` is null while it is fetched; `notes` are lines about it, `close` ends it.
export function nodePanel(h, { name, node, problem, notes, colourOf, close }) {
  const ask = (step, text) => h("a", { class: "button plain", href: `/what-if?${new URLSearchParams({ changes: `${step} ${name}` })}` }, text);
  return h("aside", { class: "panel node-details", "aria-label": `Node ${name}` }, [
    h("div", { class: "panel-head" }, [h("h2", name), h("button", { type: "button", class: "plain", onClick: close }, "Close")]),
    notes.length ? h("p", { class: "soft" }, notes.join(" · ")) : null,
    problem ? h("p", { class: "problem", role: "alert" }, problem) : null,
    node
      ? [
          node.taints.length ? h("ul", { class: "chips", "aria-label": "Taints" }, node.taints.map((taint) => h("li", { class: "chip warn" }, taint))) : null,
          resources(h, node),
          h("div", { class: "toolbar" }, [ask("drain", "Drain this"), ask("cordon", "Cordon this"), ask("remove-nodes", "Lose this")]),
          preemption(h, node),
          h("details", [
            h("summary", `Labels (${Object.keys(node.labels).length})`),
            h("ul", { class: "chips" }, Object.entries(node.labels).map(([key, value]) => h("li", { class: "chip" }, `${key}=${value}`))),
          ]),
          pods(h, node, colourOf),
        ]
      : problem ? null : h("p", { class: "soft", role: "status" }, "Loading…"),
  ]);
}
