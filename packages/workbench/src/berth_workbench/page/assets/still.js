// A part of the page that stays as it is. `html` comes from our own server, which has escaped whatever it shows.
export default {
  props: { kind: String, html: String },
  render() {
    return Vue.h(this.kind, { innerHTML: this.html });
  },
};
