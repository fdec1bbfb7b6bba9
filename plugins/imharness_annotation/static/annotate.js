"use strict";
let sent = false;
document.addEventListener("submit", (event) => {
  if (sent) event.preventDefault();
  sent = true;
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.tagName === "INPUT") return;
  const button = document.querySelector(`button[data-key="${CSS.escape(event.key)}"]:not(:disabled)`);
  if (button) button.click();
});
const timed = document.querySelector("[data-shown]");
if (timed) showInTurn(timed, Number(timed.dataset.shown), Number(timed.dataset.gap));

// Shows the images of a just noticeable difference one after the other, then lets the answers be given.
async function showInTurn(place, shown, gap) {
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const figures = [...place.querySelectorAll("figure")];
  await Promise.all(figures.map((figure) => figure.querySelector("img").decode()));
  for (const [number, figure] of figures.entries()) {
    if (number) await pause(gap);
    figure.classList.add("now");
    await pause(shown);
    figure.classList.remove("now");
  }
  for (const button of document.querySelectorAll(".answers button")) button.disabled = false;
}
