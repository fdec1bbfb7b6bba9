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
