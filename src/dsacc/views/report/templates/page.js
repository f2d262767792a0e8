"use strict";
// Tables can be sorted. A third press brings the first order back. Without this script they cannot be sorted.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = text === "" ? NaN : Number(text);
    return { text, number, empty: text === "" || text === "-" };
  };
  const sort = (column, direction) => {
    const sign = direction === "ascending" ? 1 : -1;
    const rows = direction === "none" ? original : [...original].sort((one, other) => {
      const a = valueOf(one, column), b = valueOf(other, column);
      if (a.empty || b.empty) return a.empty - b.empty;
      if (!Number.isNaN(a.number) && !Number.isNaN(b.number)) return sign * (a.number - b.number);
      return sign * a.text.localeCompare(b.text, "en", { numeric: true });
    });
    body.append(...rows);
    table.classList.toggle("sorted", direction !== "none");
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? direction : "none"));
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const numbers = original.some((row) => !Number.isNaN(valueOf(row, column).number));
      const order = numbers ? ["descending", "ascending", "none"] : ["ascending", "descending", "none"];
      const next = order[(order.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
      sort(column, next);
      const words = next === "none" ? "in its first order" : `sorted by ${button.textContent}, ${next}`;
      document.getElementById("said").textContent = `${table.caption.textContent}: ${words}`;
    });
  });
}
// On paper everything is open.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
// The values along a figure of training can be read with a mouse, a finger or the arrow keys. For a screen reader this
// is a slider. Without this script there is none.
const written = (value) => value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumSignificantDigits: 4 });
const part = (kind, parent, text = "") => {
  const element = document.createElement("span");
  element.className = kind;
  element.textContent = text;
  parent.append(element);
  return element;
};
for (const plot of document.querySelectorAll(".plot[data-values]")) {
  const { box, x, y, steps, lines } = JSON.parse(plot.dataset.values);
  const reader = part("reader", plot), readout = part("readout", plot);
  const [left, top, width, height] = box.map((share) => `${100 * share}%`);
  Object.assign(reader.style, { left, top, width, height });
  reader.tabIndex = 0;
  const about = { role: "slider", "aria-label": `Values along ${plot.dataset.title}`, "aria-valuemin": steps[0], "aria-valuemax": steps.at(-1) };
  for (const [name, value] of Object.entries(about)) reader.setAttribute(name, value);
  readout.setAttribute("aria-hidden", "true");
  readout.hidden = true;
  let at = steps.length - 1;
  const words = (i) => lines.map(({ name, mean, raw }) => `${name} ${written(mean[i])}, raw ${raw.map((seed) => written(seed[i])).join(" and ")}`);
  const tell = () => {
    reader.setAttribute("aria-valuenow", steps[at]);
    reader.setAttribute("aria-valuetext", `step ${steps[at].toLocaleString("en")}: ${words(at).join("; ")}`);
  };
  const hide = () => { readout.hidden = true; reader.replaceChildren(); };
  const show = (i) => {
    at = Math.min(Math.max(i, 0), steps.length - 1);
    tell();
    readout.replaceChildren();
    reader.replaceChildren();
    const across = 100 * (steps[at] - x[0]) / (x[1] - x[0]);
    part("cross", reader).style.left = `${across}%`;
    part("step", readout, `step ${steps[at].toLocaleString("en")}`);
    const many = lines.some(({ raw }) => raw.length > 1);
    part("head", readout, many ? "mean" : "smooth");
    part("head", readout, many ? "raw, seed by seed" : "raw");
    for (const { name, ink, mean, raw } of lines) {
      const colour = `var(--s${ink})`;
      part("who", readout, name).style.borderColor = colour;
      part("mean", readout, written(mean[at]));
      part("raw", readout, raw.map((seed) => written(seed[at])).join("  "));
      if (mean[at] === null) continue;
      const dot = part("dot", reader);
      Object.assign(dot.style, { left: `${across}%`, top: `${100 * (y[1] - mean[at]) / (y[1] - y[0])}%`, background: colour });
    }
    readout.hidden = false;
  };
  const nearest = (event) => {
    const seen = reader.getBoundingClientRect();
    const step = x[0] + (x[1] - x[0]) * (event.clientX - seen.left) / seen.width;
    show(steps.reduce((best, value, i) => Math.abs(value - step) < Math.abs(steps[best] - step) ? i : best, 0));
  };
  const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity };
  reader.addEventListener("pointermove", nearest);
  reader.addEventListener("pointerdown", nearest);
  reader.addEventListener("pointerleave", () => { if (document.activeElement !== reader) hide(); });
  reader.addEventListener("focus", () => show(at));
  reader.addEventListener("blur", hide);
  reader.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    if (!(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    show(at + moves[event.key]);
  });
  tell();
}
for (const hint of document.querySelectorAll(".with-script")) hint.hidden = false;
