// Galleries: a button for the difference view, and a choice of entries.
for (const gallery of document.querySelectorAll(".gallery")) {
  const bar = document.createElement("p");
  bar.className = "tools";
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Difference";
  button.setAttribute("aria-pressed", "false");
  button.addEventListener("click", () => {
    const on = gallery.classList.toggle("difference");
    button.setAttribute("aria-pressed", String(on));
  });
  bar.append(button);
  const entries = [...new Set([...gallery.querySelectorAll("[data-entry]")].map((e) => e.dataset.entry))];
  if ("gallery" in gallery.dataset && entries.length > 1) {
    const label = document.createElement("label");
    label.textContent = "Show ";
    const select = document.createElement("select");
    for (const name of ["", ...entries]) select.append(new Option(name || "all entries", name));
    select.addEventListener("change", () => {
      for (const item of gallery.querySelectorAll("[data-entry]")) {
        item.hidden = select.value !== "" && item.dataset.entry !== select.value;
      }
    });
    label.append(select);
    bar.append(label);
  }
  gallery.before(bar);
}
