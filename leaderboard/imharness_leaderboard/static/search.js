// Search: entries, papers, terms, tables and tracks by their words. What has the searched name itself comes first.
const finder = document.getElementById("search"), field = document.getElementById("find-all");
const list = finder.querySelector(".found"), button = document.querySelector("[data-search]");
const MOST = 20, root = finder.dataset.root ?? "";
let request = null;
button.hidden = location.protocol === "file:";
button.setAttribute("role", "button");
button.setAttribute("aria-expanded", "false");
button.addEventListener("click", (event) => {
  event.preventDefault();
  finder.hidden = !finder.hidden;
  button.setAttribute("aria-expanded", String(!finder.hidden));
  if (!finder.hidden) field.focus();
});

const item = (...children) => { const node = document.createElement("li"); node.append(...children); return node; };

/** How far a text is from the searched words: 0 for the same, 1 if it starts with them, 2 if each starts a word, 3 else. */
function distance(text, query, words) {
  const bare = text.toLowerCase();
  if (bare === query) return 0;
  if (bare.startsWith(query)) return /[a-z0-9]/.test(bare[query.length]) ? 1.5 : 1;
  const starts = bare.split(/[^a-z0-9]+/);
  return words.every((word) => starts.some((start) => start.startsWith(word))) ? 2 : 3;
}

/** What has all words, the nearest first; of equals the shorter one. */
function find(all, query) {
  const words = query.split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return all
    .map((row, order) => ({ row, order, all: row.join(" ").toLowerCase() }))
    .filter(({ all: text }) => words.every((word) => text.includes(word)))
    .map((one) => ({ ...one, far: distance(one.row[0], query, words) }))
    .sort((a, b) => a.far - b.far || a.row[0].length - b.row[0].length || a.order - b.order)
    .map(({ row }) => row);
}

field.addEventListener("input", async () => {
  request ??= fetch(root + finder.dataset.file).then((answer) => answer.json());
  let all = [];
  try { all = await request; } catch (error) { list.replaceChildren(item(`The list cannot be read (${error.message}).`)); return; }
  const query = field.value.trim().toLowerCase(), matches = find(all, query);
  list.replaceChildren(...matches.slice(0, MOST).map(([text, kind, page]) => {
    const link = Object.assign(document.createElement("a"), { href: root + page, textContent: text });
    return item(link, Object.assign(document.createElement("span"), { className: "small", textContent: ` ${kind}` }));
  }));
  if (matches.length > MOST) list.append(item(`and ${matches.length - MOST} more`));
  if (query && !matches.length) list.append(item("Nothing has this name."));
});
