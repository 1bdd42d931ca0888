// What the page asks for by itself. While somebody changes something nothing is asked for: what was on its way is old
// afterwards, or asks for what is gone.

const loads = new Set(); // those under way
let changes = 0; // those under way

// Return the control of a load that begins now, for `end`; null while something is changed: then there is none.
export function begin() {
  if (changes) return null;
  const control = new AbortController();
  loads.add(control);
  return control;
}

export const end = (control) => loads.delete(control);

// Change something, with no load under way.
export async function alone(change) {
  changes += 1;
  loads.forEach((control) => control.abort());
  try { return await change(); } finally { changes -= 1; }
}
