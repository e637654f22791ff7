// Amounts of resources and parts of them, as people read them.

const BYTES = ["memory", "ephemeral-storage"];

export function amount(resource, value) {
  if (resource === "cpu") return String(Math.round(value) / 1000);
  if (BYTES.includes(resource) || resource.startsWith("hugepages-")) {
    for (const [power, unit] of [[40, "Ti"], [30, "Gi"], [20, "Mi"], [10, "Ki"]]) {
      const whole = value / 2 ** power;
      if (whole >= 1) return `${whole >= 100 ? whole.toFixed(0) : +whole.toPrecision(3)} ${unit}`;
    }
  }
  return String(value);
}

export function percent(share) {
  return share === null || share === undefined ? "none" : `${Math.round(share * 100)} %`;
}

export async function fetched(url) {
  try {
    const answer = await fetch(url);
    if (answer.status === 401) return [null, "You are signed out: reload the page to sign in again."];
    const told = await answer.json();
    return answer.ok ? [told, ""] : [null, String(told.error)];
  } catch {
    return [null, "The server of this page does not answer."];
  }
}
