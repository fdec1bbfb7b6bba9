// Search of the home page: entries, tables and tracks by name.
const finder = document.getElementById("search"), field = document.getElementById("find-all");
const list = finder.querySelector(".found"), button = document.querySelector("[data-search]");
let known = null;
button.hidden = false;
button.setAttribute("role", "button");
button.setAttribute("aria-expanded", "false");
button.addEventListener("click", (event) => {
  event.preventDefault();
  finder.hidden = !finder.hidden;
  button.setAttribute("aria-expanded", String(!finder.hidden));
  if (!finder.hidden) field.focus();
});
field.addEventListener("input", async () => {
  known ??= fetch(finder.dataset.file).then((answer) => answer.json());
  let all = [];
  try { all = await known; } catch (error) { list.textContent = `The list cannot be read (${error.message}).`; return; }
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? all.filter(([text, kind]) => words.every((word) => `${text} ${kind}`.toLowerCase().includes(word))) : [];
  list.replaceChildren(...found.slice(0, 20).map(([text, kind, page]) => {
    const item = document.createElement("li"), link = Object.assign(document.createElement("a"), { href: page, textContent: text });
    item.append(link, Object.assign(document.createElement("span"), { className: "small", textContent: ` ${kind}` }));
    return item;
  }), ...(words.length && !found.length ? [Object.assign(document.createElement("li"), { textContent: "Nothing has this name." })] : []));
  if (found.length > 20) list.append(Object.assign(document.createElement("li"), { textContent: `and ${found.length - 20} more` }));
});
