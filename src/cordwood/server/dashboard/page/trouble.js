// What went wrong, in the broker's words, and what to do about it.
import {html} from "./html.js";
import {Gone} from "./broker.js";

export function Trouble({error}) {
  if (!error) return null;
  let hint = "";
  if (error instanceof Gone) hint = " Nothing may have been done; look before you try again.";
  if (error.status === 403) hint = " Use a token that has this right, or have it given to this one.";
  if (error.status === 401) hint = " Give a token that the broker knows.";
  return html`<p class="trouble" role="alert">${hint ? error.message.replace(/[^.]$/, "$&.") : error.message}${hint}</p>`;
}
