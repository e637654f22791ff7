// A form of labelled fields, filled in here and sent as a whole: `send` with the values by name, `stop` while at work.
// A field is {name, label, kind: "text" | "area" | "select" | "check" | "number", value, options, hint, rows, lines}.
// What is filled in stays: in the page's address, so that it can be sent to somebody, or where that is too long in this
// tab. An address with values is tried at once. Files can be dropped onto areas. Other components hear of the values by
// the window's event "berth-form", and add lines to an area by "berth-line".

const LONGEST_ADDRESS = 4000;

function filled(field) {
  return field.value ?? (field.kind === "check" ? false : "");
}

export default {
  props: { label: String, fields: Array, action: String, busy: Boolean, progress: String },
  emits: ["send", "stop"],
  data() {
    const values = Object.fromEntries(this.fields.map((field) => [field.name, filled(field)]));
    const query = new URLSearchParams(location.search);
    let kept = {};
    try {
      kept = JSON.parse(sessionStorage.getItem(this.key()) || "{}");
    } catch { /* somebody else's, or none */ }
    for (const field of this.fields) {
      if (field.name in kept && typeof kept[field.name] === typeof values[field.name]) values[field.name] = kept[field.name];
      if (query.has(field.name)) values[field.name] = field.kind === "check" ? query.get(field.name) === "true" : query.get(field.name);
    }
    return { values, isSent: this.fields.some((field) => query.has(field.name)) };
  },
  mounted() {
    this.added = (event) => {
      const { name, line } = event.detail;
      const before = String(this.values[name] || "").split("\n").filter((each) => each.trim());
      this.set(name, (before.includes(line) ? before.filter((each) => each !== line) : [...before, line]).join("\n"));
    };
    window.addEventListener("berth-line", this.added);
    this.tell();
    if (this.isSent) this.$emit("send", { ...this.values });
  },
  unmounted() {
    window.removeEventListener("berth-line", this.added);
  },
  methods: {
    key() {
      return `berth-form ${location.pathname} ${this.label}`;
    },
    set(name, value) {
      this.values[name] = value;
      this.keep();
      this.tell();
    },
    keep() {
      const query = new URLSearchParams(location.search);
      for (const field of this.fields) {
        const value = this.values[field.name];
        value === filled(field) ? query.delete(field.name) : query.set(field.name, value);
      }
      const address = query.size ? `?${query}` : location.pathname;
      if (address.length <= LONGEST_ADDRESS) history.replaceState(history.state, "", address);
      try {
        sessionStorage.setItem(this.key(), JSON.stringify(this.values));
      } catch { /* full: the form works without */ }
    },
    tell() {
      window.dispatchEvent(new CustomEvent("berth-form", { detail: { ...this.values } }));
    },
    async dropped(event, name) {
      const files = [...(event.dataTransfer?.files || [])];
      if (!files.length) return;
      event.preventDefault();
      const texts = await Promise.all(files.map((file) => file.text()));
      this.set(name, [this.values[name], ...texts].filter(Boolean).join("\n---\n"));
    },
    control(field) {
      const h = Vue.h;
      const set = (value) => this.set(field.name, value);
      const common = { name: field.name, "aria-describedby": field.hint ? `hint-${field.name}` : undefined };
      if (field.kind === "select")
        return h("select", { ...common, value: this.values[field.name], onChange: (event) => set(event.target.value) },
          field.options.map((value) => h("option", { value, selected: value === this.values[field.name] }, value)));
      if (field.kind === "check")
        return h("input", { ...common, type: "checkbox", checked: this.values[field.name], onChange: (event) => set(event.target.checked) });
      if (field.kind === "area")
        return h("textarea", { ...common, rows: field.rows || 5, spellcheck: false, value: this.values[field.name],
          onInput: (event) => set(event.target.value), onDragover: (event) => event.preventDefault(), onDrop: (event) => this.dropped(event, field.name) });
      return h("input", { ...common, type: field.kind, value: this.values[field.name], onInput: (event) => set(event.target.value) });
    },
  },
  render() {
    const h = Vue.h;
    return h("form", { class: "trial-form", "aria-label": this.label, onSubmit: (event) => { event.preventDefault(); this.busy || this.$emit("send", { ...this.values }); } }, [
      ...this.fields.map((field) => h("div", { class: `form-row kind-${field.kind}`, key: field.name }, [
        h("label", { class: field.kind === "check" ? "check" : "field wide" }, [h("span", field.label), this.control(field)]),
        field.hint ? h("p", { class: "hint", id: `hint-${field.name}` }, field.hint) : null,
      ])),
      h("div", { class: "form-end" }, [
        h("button", { type: "submit", disabled: this.busy }, this.action),
        this.busy ? h("button", { type: "button", class: "plain", onClick: () => this.$emit("stop") }, "Stop") : null,
        h("span", { role: "status", class: "soft" }, this.busy ? this.progress || "At work…" : ""),
      ]),
    ]);
  },
};
