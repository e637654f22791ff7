// The colours of maps, for light and for dark: from little to much, and what is written and drawn beside them.

export const RAMPS = {
  light: ["#e4edf7", "#b3d0ea", "#6fabd8", "#3079bd", "#134d8f", "#08275a"],
  dark: ["#22303f", "#254a72", "#2d6dac", "#4b97d9", "#8ec5f3", "#dceeff"],
};
export const INK = {
  light: { text: "#1b2430", soft: "#55606d", line: "#8a95a1", none: "#c9d0d8", focus: "#c2410c", mark: "#b45309", over: "#c0241f", ground: "#e4e8ee" },
  dark: { text: "#e6eaf0", soft: "#aab4c0", line: "#6d7885", none: "#3a4552", focus: "#ffb454", mark: "#ffb454", over: "#ff6b61", ground: "#2b3440" },
};
export const STEPS = 64;
// Colours that are told apart, also by those who see red and green alike (after Okabe and Ito); the last is for the rest.
export const KINDS = {
  light: ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7a00", "#6a51a3", "#8a95a1"],
  dark: ["#4aa3df", "#f2b134", "#2fc496", "#e09cc3", "#8fd0f7", "#f08243", "#d9c94c", "#a897dd", "#7d8894"],
};

export function themeOf(body) {
  return body.classList.contains("body--dark") ? "dark" : "light";
}

export function ramp(stops) {
  const channel = (color, at) => parseInt(color.slice(1 + 2 * at, 3 + 2 * at), 16);
  return Array.from({ length: STEPS + 1 }, (_, step) => {
    const place = (step / STEPS) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    const mix = [0, 1, 2].map((at) =>
      Math.round(channel(stops[low], at) + (place - low) * (channel(stops[low + 1], at) - channel(stops[low], at))),
    );
    return `rgb(${mix.join(",")})`;
  });
}

export function paintScale(canvas, colours) {
  const pen = canvas.getContext("2d");
  colours.forEach((colour, step) => {
    pen.fillStyle = colour;
    pen.fillRect((step / colours.length) * canvas.width, 0, canvas.width / colours.length + 1, canvas.height);
  });
}
