// What the theme leaves out for those who use no mouse or see no page: names of the search and of the buttons of each
// block of code, and the keyboard for tables that scroll.
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
new MutationObserver(() => {
  document.querySelectorAll(".md-code__nav").forEach((nav, i) => nav.setAttribute("aria-label", `Code ${i + 1}`));
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((table) => {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  });
}).observe(document.body, { childList: true, subtree: true });
