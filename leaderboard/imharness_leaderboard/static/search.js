// Search: entries, papers, terms, tables and tracks by their words. What has the searched name itself comes first.
const finder = document.getElementById("search"), field = document.getElementById("find-all");
const list = finder.querySelector(".found"), button = document.querySelector("[data-search]");
const MOST = 20, root = finder.dataset.root ?? "";
let known = null;
button.hidden = location.protocol === "file:";
button.setAttribute("role", "button");
button.setAttribute("aria-expanded", "false");
button.addEventListener("click", (event) => {
  event.preventDefault();
  finder.hidden = !finder.hidden;
  button.setAttribute("aria-expanded", String(!finder.hidden));
  if (!finder.hidden) field.focus();
});

const item = (...children) => { const made = document.createElement("li"); made.append(...children); return made; };

/** How far a text is from the searched words: 0 for the same, 1 if it starts with them, 2 if each starts a word, 3 else. */
function distance(text, query, words) {
  const bare = text.toLowerCase();
  if (bare === query) return 0;
  if (bare.startsWith(query)) return /[a-z0-9]/.test(bare[query.length]) ? 1.5 : 1;
  const parts = bare.split(/[^a-z0-9]+/);
  return words.every((word) => parts.some((part) => part.startsWith(word))) ? 2 : 3;
}

/** What has all words, the nearest first; of equals the shorter one. */
function find(all, query) {
  const words = query.split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  return all
    .map((own, order) => ({ own, order, all: own.join(" ").toLowerCase() }))
    .filter(({ all: text }) => words.every((word) => text.includes(word)))
    .map((one) => ({ ...one, far: distance(one.own[0], query, words) }))
    .sort((a, b) => a.far - b.far || a.own[0].length - b.own[0].length || a.order - b.order)
    .map(({ own }) => own);
}

field.addEventListener("input", async () => {
  known ??= fetch(root + finder.dataset.file).then((answer) => answer.json());
  let all = [];
  try { all = await known; } catch (error) { list.replaceChildren(item(`The list cannot be read (${error.message}).`)); return; }
  const query = field.value.trim().toLowerCase(), found = find(all, query);
  list.replaceChildren(...found.slice(0, MOST).map(([text, kind, page]) => {
    const link = Object.assign(document.createElement("a"), { href: root + page, textContent: text });
    return item(link, Object.assign(document.createElement("span"), { className: "small", textContent: ` ${kind}` }));
  }));
  if (found.length > MOST) list.append(item(`and ${found.length - MOST} more`));
  if (query && !found.length) list.append(item("Nothing has this name."));
});
