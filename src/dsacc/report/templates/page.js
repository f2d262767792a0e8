"use strict";
// Tables can be sorted; without this script they are plain tables. A third press brings the first order back.
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
