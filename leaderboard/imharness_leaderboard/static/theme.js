// The light or dark theme: as the reader chose, else as the system is set.
document.documentElement.classList.add("js");
// Browsers let a page of a file neither import scripts nor fetch scores: what needs them is not offered there.
if (location.protocol === "file:") document.documentElement.classList.add("from-file");
const stored = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
if (stored === "dark" || stored === "light") document.documentElement.dataset.theme = stored;
addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector("button.theme");
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.setAttribute("aria-label", "Switch between light and dark");
  button.hidden = false;
  name();
  button.addEventListener("click", () => {
    const next = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("theme", next); } catch { /* private window */ }
    name();
  });
});
