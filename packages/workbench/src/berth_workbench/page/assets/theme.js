// Light, dark, or as the system has it; the choice is kept in the browser.
const KEY = "berth-theme";

export default {
  data() {
    return { theme: localStorage.getItem(KEY) || "auto" };
  },
  created() {
    this.apply();
  },
  methods: {
    apply() {
      setDark(this.theme === "auto" ? null : this.theme === "dark");
    },
    choose(event) {
      this.theme = event.target.value;
      localStorage.setItem(KEY, this.theme);
      this.apply();
    },
  },
  render() {
    const h = Vue.h;
    const options = [["auto", "as the system"], ["light", "light"], ["dark", "dark"]];
    return h("label", { class: "theme" }, [
      h("span", "Theme"),
      h("select", { value: this.theme, onChange: this.choose },
        options.map(([value, text]) => h("option", { value, selected: value === this.theme }, text))),
    ]);
  },
};
