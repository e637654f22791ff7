// What stands around every page: a line of header with the search, which cluster is looked at and the theme; and the side bar
// with the views in groups, which folds to icons, and on narrow screens is a sheet that slides in.
// The keys: "/" searches, "1" to "9" lead to the views, "?" tells the keys.

import { fetched } from "/assets/numbers.js";

const WAIT_MS = 150;
const SHEET_BELOW = 720, ICONS_BELOW = 1080;
const THEMES = [["auto", "as the system has it", "contrast"], ["light", "light", "light_mode"], ["dark", "dark", "dark_mode"]];

export default {
  inheritAttrs: false,
  props: { groups: Array, current: String, title: String, age: String, src: String },
  data() {
    const folded = localStorage.getItem("berth-folded");
    return {
      text: "", hits: [], at: -1, problem: "", isOpen: false, keys: false,
      isSheetOpen: false, isFolded: folded === null ? window.innerWidth < ICONS_BELOW : folded === "true", theme: localStorage.getItem("berth-theme") || "auto",
      isNarrow: window.innerWidth < SHEET_BELOW,
    };
  },
  created() {
    this.applyTheme();
  },
  mounted() {
    this.heard = (event) => this.pressed(event);
    this.resized = () => (this.isNarrow = window.innerWidth < SHEET_BELOW);
    window.addEventListener("keydown", this.heard);
    window.addEventListener("resize", this.resized);
  },
  unmounted() {
    window.removeEventListener("keydown", this.heard);
    window.removeEventListener("resize", this.resized);
  },
  methods: {
    applyTheme() {
      setDark(this.theme === "auto" ? null : this.theme === "dark");
    },
    nextTheme() {
      const at = THEMES.findIndex(([name]) => name === this.theme);
      this.theme = THEMES[(at + 1) % THEMES.length][0];
      localStorage.setItem("berth-theme", this.theme);
      this.applyTheme();
    },
    toggle() {
      if (this.isNarrow) this.isSheetOpen = !this.isSheetOpen;
      else {
        this.isFolded = !this.isFolded;
        localStorage.setItem("berth-folded", String(this.isFolded));
      }
    },
    pressed(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") this.keys = this.isOpen = this.isSheetOpen = false;
      if (event.target !== document.body && event.target.closest?.("input, textarea, select, [contenteditable]")) return;
      const views = this.groups.flatMap((group) => group.views);
      if (event.key === "/" && this.src) {
        event.preventDefault();
        this.$refs.input.focus();
      } else if (event.key === "?") this.keys = !this.keys;
      else if (/^[1-9]$/.test(event.key) && views[event.key - 1]) location.assign(views[event.key - 1].path);
    },
    typed(event) {
      this.text = event.target.value;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.look(), WAIT_MS);
    },
    async look() {
      const asked = this.text.trim();
      this.hits = asked ? this.hits : [];
      this.isOpen = asked ? this.isOpen : false;
      if (!asked) return;
      const [hits, problem] = await fetched(`${this.src}?${new URLSearchParams({ find: asked })}`);
      if (asked !== this.text.trim()) return;
      this.problem = problem;
      this.hits = hits || [];
      this.at = this.hits.length ? 0 : -1;
      this.isOpen = true;
    },
    chosen(event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        this.at = Math.max(0, Math.min(this.hits.length - 1, this.at + step));
      } else if (event.key === "Enter") {
        event.preventDefault();
        const hit = this.hits[this.at];
        if (hit) location.assign(hit.href);
        else if (/^[^/]+\/[^/]+$/.test(this.text.trim())) location.assign(`/pods/${this.text.trim().split("/").map(encodeURIComponent).join("/")}`);
      }
    },
    icon(name) {
      return Vue.h(Quasar.QIcon, { name, "aria-hidden": "true" });
    },
    searching() {
      const h = Vue.h;
      const told = this.problem || (this.hits.length ? "" : "Nothing here has that name.");
      return h("div", { class: "search", role: "search" }, [
        h("input", {
          ref: "input", type: "search", name: "search", placeholder: "Search ( / )", "aria-label": "Search nodes, pods and workloads", value: this.text,
          role: "combobox", "aria-expanded": String(this.isOpen), "aria-controls": this.isOpen ? "found" : undefined, "aria-activedescendant": this.isOpen && this.at >= 0 ? `found-${this.at}` : undefined,
          autocomplete: "off", onInput: this.typed, onKeydown: this.chosen, onFocus: () => (this.isOpen = this.hits.length > 0),
          onBlur: () => setTimeout(() => (this.isOpen = false), 200),
        }),
        this.isOpen
          ? h("ul", { id: "found", class: "found", role: "listbox", "aria-label": "What has this name" }, [
              ...this.hits.map((hit, number) => h("li", { role: "option", id: `found-${number}`, "aria-selected": String(number === this.at), class: number === this.at ? "lit" : "", onMousedown: () => location.assign(hit.href) },
                [h("span", { class: "kind" }, hit.kind), " ", hit.name])),
              told ? h("li", { class: "soft", role: "option", "aria-selected": "false" }, told) : null,
            ])
          : null,
      ]);
    },
    navigation() {
      const h = Vue.h, isIcons = this.isFolded && !this.isNarrow;
      return h("nav", { "aria-label": "Views", class: isIcons ? "views icons" : "views" }, [
        this.isNarrow ? h("p", { class: "source" }, [this.title, " ", h("span", { class: "soft" }, this.age)]) : null,
        ...this.groups.map((group) => h("div", { class: "view-group", role: "group", "aria-label": group.name }, [
          h("p", { class: "group-name", "aria-hidden": "true" }, group.name),
          h("ul", group.views.map((view) => h("li", h("a", { href: view.path, title: isIcons ? view.name : undefined, "aria-current": view.path === this.current ? "page" : undefined },
            [this.icon(view.icon), h("span", { class: isIcons ? "sr-only" : "" }, view.name)])))),
        ])),
        h("form", { method: "post", action: "/sign-out" }, h("button", { type: "submit", class: "quiet", title: "Sign out" }, [this.icon("logout"), h("span", { class: isIcons ? "sr-only" : "" }, "Sign out")])),
      ]);
    },
    toldKeys() {
      const h = Vue.h, views = this.groups.flatMap((group) => group.views).slice(0, 9);
      return h("div", { class: "keys panel", role: "dialog", "aria-label": "Keys" }, [
        h("h2", "Keys"),
        h("dl", [["/", "search"], ...views.map((view, number) => [String(number + 1), view.name]), ["?", "these keys"], ["Esc", "close"]]
          .flatMap(([key, what]) => [h("dt", h("kbd", key)), h("dd", what)])),
      ]);
    },
  },
  render() {
    const h = Vue.h;
    const [, themed, themeIcon] = THEMES.find(([name]) => name === this.theme) || THEMES[0];
    const isShown = this.isNarrow ? this.isSheetOpen : true;
    return [
      h(Quasar.QHeader, { class: "page-header" }, () => [
        h("a", { class: "skip", href: "#main" }, "Skip to the main part"),
        h("button", { type: "button", class: "quiet", "aria-label": this.isNarrow ? "Views" : this.isFolded ? "Unfold the side bar" : "Fold the side bar to icons", "aria-expanded": String(this.isNarrow ? this.isSheetOpen : !this.isFolded), onClick: this.toggle }, this.icon("menu")),
        h("a", { class: "brand", href: "/" }, "Berth"),
        this.src ? this.searching() : null,
        this.isNarrow ? null : h("span", { class: "source", title: `${this.title} ${this.age}` }, [this.title, " ", h("span", { class: "soft" }, this.age)]),
        h("button", { type: "button", class: "quiet theme", "aria-label": `Theme: ${themed}`, title: `Theme: ${themed}`, onClick: this.nextTheme }, this.icon(themeIcon)),
      ]),
      h(Quasar.QDrawer, {
        modelValue: isShown, "onUpdate:modelValue": (value) => (this.isSheetOpen = value && this.isNarrow), side: "left", behavior: this.isNarrow ? "mobile" : "desktop",
        persistent: !this.isNarrow, mini: this.isFolded && !this.isNarrow, width: this.isNarrow ? 272 : 200, miniWidth: 56, bordered: true, class: "side-bar", noSwipeOpen: true,
      }, () => this.navigation()),
      this.keys ? this.toldKeys() : null,
    ];
  },
};
