// Search over the sections of all pages, and the menu on small screens. The pages work without it.
"use strict";
(() => {
  const top = document.body.dataset.top;
  const box = document.getElementById("search");
  const list = document.getElementById("found");
  const FOUND_MAX = 12;

  const score = (entry, words) => {
    const [, page, heading, text] = entry.map((part) => part.toLowerCase());
    let sum = 0;
    for (const word of words) {
      const here = (heading.includes(word) ? 8 : 0) + (page.includes(word) ? 4 : 0) + (text.includes(word) ? 1 : 0);
      if (!here) return 0;
      sum += here + (heading.startsWith(word) ? 8 : 0);
    }
    return sum;
  };

  const show = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = words.length
      ? window.PAGES.map((entry) => [score(entry, words), entry])
          .filter(([sum]) => sum)
          .sort((a, b) => b[0] - a[0])
          .slice(0, FOUND_MAX)
      : [];
    list.replaceChildren(
      ...hits.map(([, [place, page, heading, text]]) => {
        const link = document.createElement("a");
        link.href = `${top}/${place}`;
        const name = document.createElement("strong");
        name.textContent = heading === page ? page : `${page} › ${heading}`;
        const words = document.createElement("span");
        words.textContent = text;
        link.append(name, words);
        const item = document.createElement("li");
        item.append(link);
        return item;
      }),
    );
    list.hidden = !hits.length;
  };

  box.disabled = false;
  box.addEventListener("input", show);
  box.addEventListener("focus", show);
  box.addEventListener("keydown", (event) => {
    const first = list.querySelector("a");
    if (event.key === "Enter" && first) location.href = first.href;
    if (event.key === "ArrowDown" && first) { event.preventDefault(); first.focus(); }
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!step) return;
    event.preventDefault();
    const other = document.activeElement.closest("li")?.[step];
    (other ? other.firstElementChild : box).focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { list.hidden = true; box.blur(); }
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      box.focus();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) list.hidden = true;
  });

  const button = document.getElementById("menu-button");
  button.addEventListener("click", () => {
    const open = document.body.classList.toggle("menu-open");
    button.setAttribute("aria-expanded", String(open));
  });
  document.querySelector("#menu [aria-current]")?.scrollIntoView({ block: "nearest" });
})();
