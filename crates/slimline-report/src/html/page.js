"use strict";
// Tables: a button in each head of a column that can be sorted; rows are sorted within their group, the last ones stay last.
const collator = new Intl.Collator(undefined, { numeric: true });

// What a cell is sorted by: cells are elements, or as data markup, or a list of markup, exact value and title.
const entities = { lt: "<", gt: ">", amp: "&", quot: '"', "#39": "'" };
const plain = markup => markup.replace(/<[^>]*>/g, "").replace(/&(#?\w+);/g, (whole, name) => entities[name] ?? whole);
const valueOf = cell =>
  typeof cell === "string" ? plain(cell) : Array.isArray(cell) ? cell[1] ?? plain(cell[0]) : cell.dataset.exact ?? cell.textContent;

// The rows in their new order: of each the cells. Each value is looked up once.
function sorted(rows, cells, head, direction) {
  const isNumber = head.dataset.sorted === "number";
  const keyed = rows.map(row => {
    const value = valueOf(cells(row)[head.cellIndex]);
    return { row, key: isNumber ? parseFloat(value) : value };
  });
  keyed.sort(isNumber
    // What is no number is behind all, in either direction.
    ? ({ key: a }, { key: b }) => isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : direction * (a - b)
    : (a, b) => direction * collator.compare(a.key, b.key));
  return keyed.map(({ row }) => row);
}

function sortElements(table, head, direction) {
  for (const body of table.tBodies) {
    const rows = [...body.rows].filter(row => !row.matches(".group, .last"));
    const last = body.querySelector("tr.last");
    sorted(rows, row => row.cells, head, direction).forEach(row => body.insertBefore(row, last));
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
      (table.rowsAsData?.sort ?? ((...by) => sortElements(table, ...by)))(head, next === "ascending" ? 1 : -1);
    });
  }
}

// Tables of so many rows that most are data: those in sight are drawn, between two rows that stand for all others.
const AHEAD = 20;

function drawWindow(table, script) {
  const body = table.tBodies[0];
  const box = table.parentElement;
  const classes = [...table.tHead.rows[0].cells].map(head => head.className);
  const last = [...body.rows].filter(row => row.matches(".last"));
  const elements = [...body.rows].filter(row => !row.matches(".last"));
  const rows = [...elements, ...JSON.parse(script.textContent)];
  script.remove();
  const cells = row => row.cells ?? row;
  let order = rows;
  let shown = rows;
  let words = null;
  let texts = null;
  let [first, end] = [0, 0];
  const drawn = new Map();
  const [above, below] = ["above", "below"].map(() => {
    const row = document.createElement("tr");
    row.className = "space";
    row.setAttribute("aria-hidden", "true");
    row.append(document.createElement("td"));
    row.firstChild.colSpan = classes.length;
    return row;
  });

  // Widths are those of the rows that were there first: others would have them jump.
  const height = elements[0].getBoundingClientRect().height;
  const widths = [...table.tHead.rows[0].cells].map(head => head.getBoundingClientRect().width);
  [...table.tHead.rows[0].cells].forEach((head, column) => { head.style.width = `${widths[column]}px`; });
  table.style.width = `${widths.reduce((sum, width) => sum + width)}px`;
  table.style.tableLayout = "fixed";
  box.classList.add("windowed");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", table.caption.textContent);

  const element = row => {
    if (row.cells) return row;
    const made = document.createElement("tr");
    row.forEach((cell, column) => {
      const [markup, , title] = Array.isArray(cell) ? cell : [cell];
      const of = document.createElement(column === 0 ? "th" : "td");
      if (column === 0) of.scope = "row";
      of.className = classes[column];
      if (title) of.title = plain(title);
      // As it would be in the page: names are escaped.
      of.innerHTML = markup;
      made.append(of);
    });
    return made;
  };
  const draw = () => {
    const top = Math.floor(box.scrollTop / height) - AHEAD;
    const [from, to] = [Math.max(0, top), Math.min(shown.length, top + Math.ceil(box.clientHeight / height) + 2 * AHEAD)];
    if (from === first && to === end) return;
    [first, end] = [from, to];
    // Rows that stay are left alone: one of them may have the focus.
    for (const [place, row] of drawn) {
      if (place < first || place >= end) {
        row.remove();
        drawn.delete(place);
      }
    }
    let next = below;
    for (let place = end - 1; place >= first; place--) {
      if (!drawn.has(place)) {
        const row = element(shown[place]);
        row.setAttribute("aria-rowindex", place + 2);
        next.before(row);
        drawn.set(place, row);
      }
      next = drawn.get(place);
    }
    above.firstChild.style.height = `${first * height}px`;
    below.firstChild.style.height = `${(shown.length - end) * height}px`;
  };
  const anew = () => {
    shown = words === null ? order : order.filter(row => words.every(word => texts.get(row).includes(word)));
    drawn.clear();
    body.replaceChildren(above, below, ...last);
    table.setAttribute("aria-rowcount", shown.length + last.length + 1);
    [first, end] = [0, 0];
    box.scrollTop = 0;
    draw();
  };
  table.rowsAsData = {
    sort: (head, direction) => {
      order = sorted(rows, cells, head, direction);
      anew();
    },
    filter: asked => {
      texts ??= new Map(rows.map(row => [row, textOf(row)]));
      words = asked;
      anew();
      return [shown.length, rows.length];
    },
  };
  box.addEventListener("scroll", draw, { passive: true });
  anew();
}

// All that a row says, for the filter: titles, too, which have whole paths.
function textOf(row) {
  const said = row.cells
    ? [...row.querySelectorAll("[title]"), row].map(of => of === row ? row.textContent : of.title)
    : row.map(cell => typeof cell === "string" ? plain(cell) : plain(`${cell[0]} ${cell[2] ?? ""}`));
  return said.join(" ").toLowerCase();
}

for (const searched of document.querySelectorAll(".searched")) {
  const [table, script] = [searched.querySelector("table"), searched.querySelector("script")];
  searched.querySelector(".beyond")?.remove();
  if (script) drawWindow(table, script);
  const form = searched.querySelector("form");
  if (!form) continue;
  const [input, told] = [form.querySelector("input"), form.querySelector("output")];
  const filter = table.rowsAsData?.filter ?? (words => {
    const rows = [...table.tBodies[0].rows].filter(row => !row.matches(".last"));
    rows.forEach(row => { row.hidden = words !== null && !words.every(word => textOf(row).includes(word)); });
    return [rows.filter(row => !row.hidden).length, rows.length];
  });
  form.hidden = false;
  form.addEventListener("submit", event => event.preventDefault());
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(word => word !== "");
    const [shown, all] = filter(words.length === 0 ? null : words);
    told.textContent = words.length === 0 ? "" : `${shown.toLocaleString("en")} of ${all.toLocaleString("en")} rows`;
  });
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

// What is linked to is opened, and read on from there.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const closed = target?.closest("details");
  if (!closed) return;
  closed.open = true;
  target.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
reveal();
// The same link once more, after what it leads to was closed.
document.addEventListener("click", event => {
  const link = event.target.closest?.('a[href^="#"]');
  if (link && link.hash === location.hash) reveal();
});

for (const code of document.querySelectorAll("pre.code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  const told = document.createElement("span");
  told.setAttribute("aria-live", "polite");
  told.className = "copied";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      told.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      told.textContent = "Selected: copy it by Ctrl+C";
    }
  });
  code.before(button, told);
}
