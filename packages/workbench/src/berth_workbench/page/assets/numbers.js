// Numbers as people read them, by the same rules as `showing/numbers.py`; and what is fetched from the page's server.

const UNITS = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const WHOLE_FROM = 100;
const parted = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 9 });

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) || Math.abs(value) >= WHOLE_FROM) return parted(Math.floor(value + 0.5));
  const digits = 2 - Math.floor(Math.log10(Math.abs(value)));
  return parted(+(Math.floor(value * 10 ** digits + 0.5) / 10 ** digits).toFixed(Math.min(digits, 9)));
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  const told = Math.floor(share * 100 + 0.5);
  return told === 0 && share > 0 ? "<1%" : told === 100 && share < 1 ? ">99%" : `${parted(told)}%`;
}

function isBytes(resource) {
  const name = resource.replace(/^(requests|limits)\./, "");
  return ["memory", "ephemeral-storage"].includes(name) || name.startsWith("hugepages-") || name.endsWith("storage");
}

// An amount as the scheduler counts it, which has CPU in thousandths.
export function amount(resource, counted) {
  if (resource === "cpu") return number(counted === null ? null : counted / 1000);
  if (counted === null || !isBytes(resource) || Math.abs(counted) < 1024) return number(counted);
  let power = Math.min(UNITS.length, Math.floor(Math.log(Math.abs(counted)) / Math.log(1024) + 1e-9));
  if (Math.abs(counted) / 1024 ** power >= 1023.5 && power < UNITS.length) power += 1;
  return `${number(counted / 1024 ** power)}${UNITS[power - 1]}`;
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
