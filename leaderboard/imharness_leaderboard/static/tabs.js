// The rankings of a track as tabs: without scripts they stand below each other, and the tabs are links to them.
const list = document.querySelector(".tabs ul");
const tabs = [...list.querySelectorAll("a")];
const panels = tabs.map((tab) => document.getElementById(tab.hash.slice(1)));

function show(chosen) {
  tabs.forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === chosen));
    tab.tabIndex = i === chosen ? 0 : -1;
    panels[i].hidden = i !== chosen;
  });
}

/** Show the panel that the address names, or the panel that contains what it names; without a name, the first. */
function follow() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const chosen = target ? panels.findIndex((panel) => panel.contains(target)) : 0;
  if (chosen < 0) return;
  show(chosen);
  if (target && target !== panels[chosen]) target.scrollIntoView();
}

list.setAttribute("role", "tablist");
list.setAttribute("aria-label", "Rankings");
for (const item of list.children) item.setAttribute("role", "presentation");
tabs.forEach((tab, i) => {
  tab.setAttribute("role", "tab");
  tab.setAttribute("aria-controls", panels[i].id);
  panels[i].setAttribute("role", "tabpanel");
  tab.addEventListener("click", (event) => {
    event.preventDefault();
    history.pushState(null, "", tab.hash);
    show(i);
  });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = tabs[(i + step + tabs.length) % tabs.length];
    next.click();
    next.focus();
  });
});
addEventListener("popstate", follow);
addEventListener("hashchange", follow);
follow();
