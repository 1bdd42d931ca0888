// What went wrong, in the broker's words, and what to do about it.
import {html} from "./html.js";
import {Gone} from "./broker.js";

// `change`: something was to be changed, and whether it was is not known when no answer came.
export function Trouble({error, change = false}) {
  if (!error) return null;
  let hint = "";
  if (error instanceof Gone && change) hint = " Perhaps it was done, perhaps not: look before you try again.";
  if (error.status === 403) hint = " Use a token that has this right, or have it given to this one.";
  if (error.status === 401) hint = " Give a token that the broker knows.";
  return html`<p class="trouble" role="alert">${hint ? error.message.replace(/[^.]$/, "$&.") : error.message}${hint}</p>`;
}
