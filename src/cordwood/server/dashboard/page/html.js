// Elements from templates. What is put into one is text or an attribute, never HTML.
import {Component, Fragment, createRef, h, render} from "./preact.js";
import htm from "./htm.js";

export const html = htm.bind(h);
export {Component, Fragment, createRef, render};
