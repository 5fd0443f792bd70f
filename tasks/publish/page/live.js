// Looks again every few seconds, unless somebody has stopped it or looks elsewhere.

const EVERY_MS = 3000;
const pause = document.getElementById("pause");
pause.closest("label").hidden = false;
setInterval(() => {
  if (!pause.checked && !document.hidden) location.reload();
}, EVERY_MS);
