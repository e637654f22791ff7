// A form of labelled fields, filled in here and sent as a whole: `send` with the values by name, `stop` while at work.
// A field is {name, label, kind: "text" | "area" | "select" | "check" | "number", value, options, hint, rows}.

export default {
  props: { label: String, fields: Array, action: String, busy: Boolean, progress: String },
  emits: ["send", "stop"],
  data() {
    return { values: Object.fromEntries(this.fields.map(({ name, kind, value }) => [name, value ?? (kind === "check" ? false : "")])) };
  },
  methods: {
    control(field) {
      const h = Vue.h;
      const set = (value) => (this.values[field.name] = value);
      const common = { name: field.name, "aria-describedby": field.hint ? `hint-${field.name}` : undefined };
      if (field.kind === "select")
        return h("select", { ...common, value: this.values[field.name], onChange: (event) => set(event.target.value) },
          field.options.map((value) => h("option", { value, selected: value === this.values[field.name] }, value)));
      if (field.kind === "check")
        return h("input", { ...common, type: "checkbox", checked: this.values[field.name], onChange: (event) => set(event.target.checked) });
      if (field.kind === "area")
        return h("textarea", { ...common, rows: field.rows || 5, spellcheck: false, value: this.values[field.name], onInput: (event) => set(event.target.value) });
      return h("input", { ...common, type: field.kind, value: this.values[field.name], onInput: (event) => set(event.target.value) });
    },
  },
  render() {
    const h = Vue.h;
    return h("form", { class: "trial-form", "aria-label": this.label, onSubmit: (event) => { event.preventDefault(); this.busy || this.$emit("send", { ...this.values }); } }, [
      ...this.fields.map((field) => h("div", { class: `form-row ${field.kind}`, key: field.name }, [
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
