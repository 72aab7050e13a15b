// Runs before the page is painted, so that a chosen theme does not flash.
(function () {
  try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch (error) { /* storage is off: the system's theme stays */ }
})();
