// The search in the head of every page: what is found while one types, with the keyboard alone if one likes, and the keys
// that lead from view to view.

import { fetched } from "/assets/numbers.js";

const WAIT_MS = 150;

export default {
  props: { src: String, views: Array },
  data() {
    return { text: "", hits: [], at: -1, problem: "", isOpen: false, keys: false };
  },
  mounted() {
    this.heard = (event) => this.pressed(event);
    window.addEventListener("keydown", this.heard);
  },
  unmounted() {
    window.removeEventListener("keydown", this.heard);
  },
  methods: {
    isTyping(target) {
      return target.closest?.("input, textarea, select, [contenteditable]") !== null && target !== document.body;
    },
    pressed(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") this.keys = this.isOpen = false;
      if (this.isTyping(event.target)) return;
      if (event.key === "/") {
        event.preventDefault();
        this.$refs.input.focus();
      } else if (event.key === "?") this.keys = !this.keys;
      else if (/^[1-9]$/.test(event.key) && this.views[event.key - 1]) location.assign(this.views[event.key - 1][0]);
    },
    typed(event) {
      this.text = event.target.value;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.look(), WAIT_MS);
    },
    async look() {
      const asked = this.text.trim();
      if (!asked) {
        this.hits = [];
        this.isOpen = false;
        return;
      }
      const [hits, problem] = await fetched(`${this.src}?${new URLSearchParams({ find: asked })}`);
      if (asked !== this.text.trim()) return;
      this.problem = problem;
      this.hits = hits || [];
      this.at = this.hits.length ? 0 : -1;
      this.isOpen = true;
    },
    chosen(event) {
      const steps = { ArrowDown: 1, ArrowUp: -1 };
      if (event.key in steps) {
        event.preventDefault();
        this.at = Math.max(0, Math.min(this.hits.length - 1, this.at + steps[event.key]));
      } else if (event.key === "Enter") {
        event.preventDefault();
        const hit = this.hits[this.at];
        if (hit) location.assign(hit.href);
        else if (/^[^/]+\/[^/]+$/.test(this.text.trim())) location.assign(`/pods/${this.text.trim().split("/").map(encodeURIComponent).join("/")}`);
      }
    },
  },
  render() {
    const h = Vue.h;
    const told = this.problem || (this.hits.length ? "" : "Nothing here has that name.");
    return h("div", { class: "search", role: "search" }, [
      h("input", {
        ref: "input", type: "search", name: "search", placeholder: "Search ( / )", "aria-label": "Search nodes, pods and workloads", value: this.text,
        role: "combobox", "aria-expanded": String(this.isOpen), "aria-controls": "found", "aria-activedescendant": this.at >= 0 ? `found-${this.at}` : undefined,
        autocomplete: "off", onInput: this.typed, onKeydown: this.chosen, onFocus: () => (this.isOpen = this.hits.length > 0),
        onBlur: () => setTimeout(() => (this.isOpen = false), 200),
      }),
      this.isOpen
        ? h("ul", { id: "found", class: "found", role: "listbox", "aria-label": "Found" }, [
            ...this.hits.map((hit, number) => h("li", { role: "option", id: `found-${number}`, "aria-selected": String(number === this.at), class: number === this.at ? "lit" : "" },
              h("a", { href: hit.href, tabindex: -1 }, [h("span", { class: "kind" }, hit.kind), " ", hit.name]))),
            told ? h("li", { class: "soft", role: "option", "aria-selected": "false" }, told) : null,
          ])
        : null,
      this.keys
        ? h("div", { class: "keys panel", role: "dialog", "aria-label": "Keys" }, [
            h("h2", "Keys"),
            h("dl", [["/", "search"], ...this.views.slice(0, 9).map(([, name], number) => [String(number + 1), name]), ["?", "these keys"], ["Esc", "close"]]
              .flatMap(([key, what]) => [h("dt", h("kbd", key)), h("dd", what)])),
          ])
        : null,
    ]);
  },
};
