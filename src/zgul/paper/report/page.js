// A click on a heading sorts by its column (numbers from the highest, texts from A), a second click reverses the order,
// a third restores it.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], first = [...body.rows];
  const heads = [...[...table.tHead.rows].at(-1).cells];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const numbers = first.some(row => row.cells[column].dataset.value);
      const states = numbers ? ["descending", "ascending", "none"] : ["ascending", "descending", "none"];
      const state = states[(states.indexOf(head.ariaSort ?? "none") + 1) % 3];
      heads.forEach(other => other.ariaSort = "none");
      head.ariaSort = state;
      const order = (a, b) => numbers ? (key(a) || -Infinity) - (key(b) || -Infinity) : key(a).localeCompare(key(b));
      const sign = state === "descending" ? -1 : 1;
      body.append(...(state === "none" ? first : [...first].sort((a, b) => sign * order(a, b))));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}
