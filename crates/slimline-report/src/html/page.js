"use strict";
// Tables: a button in each head of a column that can be sorted; rows are sorted within their group, the last ones stay last.
const collator = new Intl.Collator(undefined, { numeric: true });

function sort(table, head, direction) {
  const column = head.cellIndex;
  const value = row => row.cells[column].dataset.exact ?? row.cells[column].textContent;
  const compare = head.dataset.sorted === "number"
    ? (one, other) => {
        const [a, b] = [one, other].map(row => parseFloat(value(row)));
        // What is no number is behind all, in either direction.
        return isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : direction * (a - b);
      }
    : (one, other) => direction * collator.compare(value(one), value(other));
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter(row => !row.matches(".group, .last")).sort(compare);
    const last = body.querySelector("tr.last");
    rows.forEach(row => body.insertBefore(row, last));
  }
}

for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells].filter(head => head.dataset.sorted);
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const first = head.dataset.sorted === "number" ? "descending" : "ascending";
      const next = now === null ? first : now === "ascending" ? "descending" : "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", next);
      sort(table, head, next === "ascending" ? 1 : -1);
    });
  }
}

// The filter: regions in whose names and places all of its words are.
const filter = document.getElementById("filter");
if (filter) {
  const [input, told] = [filter.querySelector("input"), filter.querySelector("output")];
  const named = [...document.querySelectorAll("[data-region]")];
  const sections = named.filter(element => element.matches("section"));
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    named.forEach(element => { element.hidden = !words.every(word => element.dataset.region.includes(word)); });
    const shown = sections.filter(element => !element.hidden).length;
    told.textContent = input.value.trim() === "" ? "" : `${shown} of ${sections.length} shown`;
  };
  filter.hidden = false;
  filter.addEventListener("submit", event => event.preventDefault());
  input.addEventListener("input", show);
  // A link to a region that is filtered out shows it again.
  window.addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target?.hidden) {
      input.value = "";
      show();
      target.scrollIntoView();
    }
  });
}
