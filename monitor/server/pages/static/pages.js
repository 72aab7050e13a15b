// Comfort only: keyboard, theme, how long ago. Every page works without it.
"use strict";

const all = (selector) => Array.from(document.querySelectorAll(selector)).filter((one) => one.getClientRects().length > 0);

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch (error) { /* not kept */ }
}

function ago(seconds) {
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return `${Math.max(0, Math.floor(seconds))} s ago`;
}

function tellAges() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = Date.parse(time.dateTime);
    const past = (Date.now() - at) / 1000;
    time.title = time.title.split(" · ")[0] + (past >= 0 ? ` · ${ago(past)}` : "") + ` · ${new Date(at).toLocaleString()} here`;
  }
}

function move(step) {
  const stops = all(".row-link, [data-step]");
  if (stops.length === 0) return;
  const here = stops.indexOf(document.activeElement.closest(".row-link, [data-step]"));
  const next = here < 0 ? (step > 0 ? 0 : stops.length - 1) : Math.min(stops.length - 1, Math.max(0, here + step));
  const stop = stops[next].matches("details") ? stops[next].querySelector("summary") : stops[next];
  stop.focus();
  stop.scrollIntoView({ block: "nearest" });
}

let evidence = -1;
function nextEvidence() {
  const marks = all(".conversation mark");
  if (marks.length === 0) return;
  evidence = (evidence + 1) % marks.length;
  show(marks[evidence]);
}

function show(mark) {
  for (const one of document.querySelectorAll("mark.current")) one.classList.remove("current");
  mark.classList.add("current");
  mark.scrollIntoView({ block: "center" });
}

function openTarget() {
  const target = location.hash ? document.getElementById(location.hash.slice(1)) : null;
  if (target === null) return;
  for (let inside = target; inside; inside = inside.parentElement) if (inside.tagName === "DETAILS") inside.open = true;
  const mark = target.nextElementSibling;
  if (target.tagName === "A" && mark !== null && mark.tagName === "MARK") show(mark);
  else target.scrollIntoView({ block: "center" });
}

function rememberLabeler(field) {
  try {
    if (field.value) localStorage.setItem("labeler", field.value);
    else if (localStorage.getItem("labeler")) { field.value = localStorage.getItem("labeler"); field.form.requestSubmit(); }
  } catch (error) { /* nothing is remembered */ }
}

const actions = {
  j: () => move(1),
  k: () => move(-1),
  n: () => document.querySelector("[data-older]")?.click(),
  p: () => document.querySelector("[data-newer]")?.click(),
  e: nextEvidence,
  t: switchTheme,
  "?": () => document.getElementById("help").showModal(),
  "/": () => document.querySelector(".filters input, .filters select")?.focus(),
};

let going = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input:not([type=radio]), select, textarea") || document.querySelector("dialog[open]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (Date.now() - going < 1500) {
    going = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (link !== null) { event.preventDefault(); link.click(); }
    return;
  }
  if (event.key === "g") { going = Date.now(); return; }
  const field = document.querySelector(`[data-focus="${CSS.escape(event.key)}"]`);
  if (field !== null) { event.preventDefault(); field.focus(); return; }
  const press = document.querySelector(`[data-press="${CSS.escape(event.key)}"]`);
  if (press !== null) { event.preventDefault(); press.click(); return; }
  if (Object.hasOwn(actions, event.key)) { event.preventDefault(); actions[event.key](); }
});

addEventListener("hashchange", openTarget);
addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("[data-theme-switch]")) { button.hidden = false; button.addEventListener("click", switchTheme); }
  for (const button of document.querySelectorAll("[data-help]")) { button.hidden = false; button.addEventListener("click", actions["?"]); }
  for (const select of document.querySelectorAll(".filters select")) select.addEventListener("change", () => select.form.requestSubmit());
  for (const name of document.querySelectorAll("[data-labeler]")) rememberLabeler(name);
  tellAges();
  openTarget();
});
