// Click a column head to sort by it; click again to turn the order. Missing values stay last.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, i) => {
    const cell = row.cells[i];
    if (cell.tagName === "TH") return cell.textContent;
    return "value" in cell.dataset ? Number(cell.dataset.value) : null;
  };
  const sort = (i) => {
    const down = heads[i].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[i].setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map((row) => [key(row, i), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = typeof a === "string" ? a.localeCompare(b) : a - b;
      return down ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
  };
  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(i));
  });
}
