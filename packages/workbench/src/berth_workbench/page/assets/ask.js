// A question as a sentence whose parts are changed where they stand. Each part is {text, name, label, inputs}; those without
// inputs are plain words. Every change is sent as a whole ("change", with the values by name); the server answers with the
// words that stand there then. An input is {name, kind, label, value, options, example, picks, least, most, hint}.

import { fetched } from "/assets/numbers.js";

const VERBS = [
  ["drain", "Drain a node", "nodes"], ["cordon", "Cordon a node", "nodes"], ["remove-nodes", "Lose a node", "nodes"], ["lose-zone", "Lose a zone", "zones"],
  ["add-nodes", "Add nodes like", "nodes"], ["upgrade", "Upgrade a node", "nodes"], ["scale", "Scale a workload", "workloads"], ["evict", "Evict a pod", "pods"],
];
const COUNTED = { "add-nodes": "How many", scale: "Replicas" };
const linesOf = (text) => String(text || "").split("\n").map((line) => line.trim()).filter(Boolean);
let names = null;

export default {
  props: { parts: Array, rare: Array, label: String, busy: Boolean, progress: String, share: Number, stale: String, address: String, action: String, namesSrc: String },
  emits: ["change", "stop"],
  data() {
    return { open: "", draft: {}, names, verb: "drain", target: "", count: 1, isCopied: false };
  },
  watch: {
    address(address) {
      history.replaceState(history.state, "", address);
    },
  },
  methods: {
    async toggle(part, isOpen) {
      if (!isOpen) {
        if (this.open !== part.name) return;
        this.open = "";
        const changed = part.inputs.some((input) => this.draft[input.name] !== input.value);
        if (changed) this.$emit("change", { ...this.draft });
        return;
      }
      this.draft = Object.fromEntries(part.inputs.map((input) => [input.name, input.value]));
      this.open = part.name;
      if (!names) [names] = await fetched(this.namesSrc);
      this.names = names || {};
    },
    // Begin where something is typed, unless the user has begun elsewhere already.
    enter() {
      const menu = document.querySelector(".part-menu");
      if (!menu?.contains(document.activeElement) || document.activeElement === menu) (menu?.querySelector("[name=target]") || menu?.querySelector("input, textarea, select"))?.focus();
    },
    set(input, value, closes = false) {
      this.draft[input.name] = value;
      if (closes) this.toggle(this.part(), false);
    },
    part() {
      return [...this.parts, ...this.rare].find((part) => part.name === this.open);
    },
    options(picks) {
      return Vue.h("datalist", { id: `names-${picks}` }, (this.names?.[picks] || []).map((name) => Vue.h("option", { value: name })));
    },
    chips(values, remove) {
      const h = Vue.h;
      return values.length ? h("ul", { class: "chips" }, values.map((value, at) => h("li", { class: "chip" }, [value, h("button", { type: "button", class: "quiet", "aria-label": `Take ${value} away`, onClick: () => remove(at) }, h(Quasar.QIcon, { name: "close", "aria-hidden": "true" }))]))) : null;
    },
    several(input) {
      const h = Vue.h, values = String(this.draft[input.name]).split(",").map((value) => value.trim()).filter(Boolean);
      const put = (all) => this.set(input, all.join(", "));
      const add = (target) => {
        const value = target.value.trim();
        if (value && !values.includes(value)) put([...values, value]);
        target.value = "";
      };
      return [
        this.chips(values, (at) => put(values.filter((_, place) => place !== at))),
        h("input", { type: "text", list: `names-${input.picks}`, "aria-label": input.label, placeholder: input.hint || "a name", onChange: (event) => add(event.target) }),
        this.options(input.picks),
      ];
    },
    add(input) {
      const what = this.target.trim();
      if (!what) return;
      const line = this.verb === "add-nodes" ? `add-nodes ${this.count}=${what}` : this.verb === "scale" ? `scale ${what}=${this.count}` : `${this.verb} ${what}`;
      this.set(input, [...linesOf(this.draft[input.name]), line].join("\n"));
      this.target = "";
    },
    changes(input) {
      const h = Vue.h, lines = linesOf(this.draft[input.name]);
      const picks = VERBS.find(([verb]) => verb === this.verb)[2];
      const pressed = (event) => event.key === "Enter" && (event.preventDefault(), this.add(input));
      return [
        this.chips(lines, (at) => this.set(input, lines.filter((_, place) => place !== at).join("\n"))),
        h("div", { class: "adding" }, [
          h("select", { name: "verb", "aria-label": "What is changed", value: this.verb, onChange: (event) => (this.verb = event.target.value) }, VERBS.map(([value, text]) => h("option", { value, selected: value === this.verb }, text))),
          h("input", { type: "text", name: "target", list: `names-${picks}`, "aria-label": "Which one", placeholder: "a name", value: this.target, onInput: (event) => (this.target = event.target.value), onKeydown: pressed }),
          this.options(picks),
          this.verb in COUNTED ? h("input", { type: "number", name: "count", min: 0, "aria-label": COUNTED[this.verb], value: this.count, onInput: (event) => (this.count = Number(event.target.value)), onKeydown: pressed }) : null,
          h("button", { type: "button", class: "plain", disabled: !this.target.trim(), onClick: () => this.add(input) }, "Add"),
        ]),
        h("details", [h("summary", "As text"), this.document(input)]),
      ];
    },
    document(input) {
      const h = Vue.h;
      const read = async (files) => this.set(input, (await Promise.all([...files].map((file) => file.text()))).join("\n---\n"));
      return h("div", { class: "document" }, [
        h("textarea", { name: input.name, rows: 8, spellcheck: false, "aria-label": input.label, value: this.draft[input.name], onInput: (event) => this.set(input, event.target.value),
          onDragover: (event) => event.preventDefault(), onDrop: (event) => { if (event.dataTransfer?.files.length) { event.preventDefault(); read(event.dataTransfer.files); } } }),
        h("div", { class: "toolbar" }, [
          input.example ? h("button", { type: "button", class: "plain", onClick: () => this.set(input, input.example) }, "Start from an example") : null,
          h("label", { class: "file" }, ["or choose a file, or drop one here ", h("input", { type: "file", onChange: (event) => read(event.target.files) })]),
        ]),
      ]);
    },
    control(input) {
      const h = Vue.h, value = this.draft[input.name];
      if (input.kind === "choice")
        return h("fieldset", [h("legend", input.label), ...input.options.map(([option, text]) => h("label", { class: "option" }, [h("input", { type: "radio", name: input.name, checked: option === value, onChange: () => this.set(input, option), onClick: (event) => event.detail && this.set(input, option, true) }), text]))]);
      if (input.kind === "choices") {
        const chosen = value.split(",").map((each) => each.trim()).filter(Boolean);
        return h("fieldset", [h("legend", input.label), ...input.options.map(([option, text]) => h("label", { class: "option" }, [h("input", { type: "checkbox", name: option, checked: !chosen.length || chosen.includes(option), onChange: (event) => {
          const all = input.options.map(([each]) => each), now = (chosen.length ? chosen : all).filter((each) => each !== option);
          const next = event.target.checked ? [...now, option] : now;
          this.set(input, next.length === all.length ? "" : all.filter((each) => next.includes(each)).join(", "));
        } }), text]))]);
      }
      const body = input.kind === "changes" ? this.changes(input) : input.kind === "document" ? this.document(input) : input.kind === "names" ? this.several(input)
        : h("input", { type: input.kind, name: input.name, value, min: input.least, max: input.most, step: "any", "aria-label": input.label, placeholder: input.hint, onInput: (event) => this.set(input, event.target.value),
          onKeydown: (event) => event.key === "Enter" && (event.preventDefault(), this.toggle(this.part(), false)) });
      if (input.kind === "document" && this.part()?.inputs.length > 1)
        return h("details", { open: Boolean(input.value) }, [h("summary", input.label), body]);
      return h("div", { class: "control" }, [h("p", { class: "label" }, [input.label, input.unit ? h("span", { class: "soft" }, `, ${input.unit}`) : null]), body]);
    },
    piece(part) {
      const h = Vue.h;
      if (!part.inputs?.length) return h("span", { key: part.name || part.text, class: "words" }, part.text);
      return h("button", { type: "button", class: "part", key: part.name, "aria-label": `${part.label}: ${part.text}`, "aria-haspopup": "dialog", "aria-expanded": String(this.open === part.name) }, [
        part.text,
        h(Quasar.QMenu, {
          modelValue: this.open === part.name, "onUpdate:modelValue": (isOpen) => this.toggle(part, isOpen), role: "dialog", "aria-label": part.label, class: "part-menu", anchor: "bottom left", self: "top left", maxHeight: "80vh",
          transitionDuration: 0, onShow: () => this.enter(),
        }, () => h("form", { class: "part-form", onSubmit: (event) => { event.preventDefault(); this.toggle(part, false); } }, [
          ...part.inputs.map((input) => this.control(input)),
          h("div", { class: "form-end" }, [h("button", { type: "submit" }, this.action)]),
        ])),
      ]);
    },
  },
  render() {
    const h = Vue.h;
    return h("section", { class: "ask", "aria-label": "What is asked" }, [
      h("p", { class: "sentence" }, this.parts.map((part) => this.piece(part))),
      this.rare.length ? h("details", { class: "rare" }, [h("summary", "More options"), h("ul", this.rare.map((part) => h("li", [this.piece(part)])))]) : null,
      this.busy
        ? h("div", { class: "under-way" }, [
            h(Quasar.QLinearProgress, { indeterminate: !(this.share > 0), value: this.share || 0, "aria-label": "How far it is", instantFeedback: true }),
            h("span", { role: "status" }, this.progress || "At work…"),
            h("button", { type: "button", class: "plain", onClick: () => this.$emit("stop") }, "Stop"),
          ])
        : this.stale ? h("p", { class: "stale soft" }, [this.stale, " ", h("button", { type: "button", class: "plain", onClick: () => this.$emit("change", {}) }, "Ask again")]) : null,
    ]);
  },
};
