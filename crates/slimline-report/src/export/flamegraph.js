// A click, or Enter, on a frame shows it over the whole width; on the lowest frame everything.
(function () {
  "use strict";
  const frames = Array.from(document.querySelectorAll("g.frame"));
  const of = (frame) => ({
    from: Number(frame.dataset.from),
    size: Number(frame.dataset.size),
    depth: Number(frame.dataset.depth),
  });
  const show = (root) => {
    const { from, size, depth } = of(root);
    for (const frame of frames) {
      const own = of(frame);
      const isBelow = own.depth < depth;
      const begin = Math.max(own.from, from);
      const end = Math.min(own.from + own.size, from + size);
      // Those that the shown one stands on are whole, however far they go on beside it.
      frame.style.display = end - begin > 1e-9 ? "" : "none";
      frame.style.opacity = isBelow ? "0.5" : "";
      const x = MARGIN + (begin - from) / size * INNER;
      const width = Math.max((end - begin) / size * INNER, 0);
      const rect = frame.querySelector("rect");
      rect.setAttribute("x", x);
      rect.setAttribute("width", width);
      const text = frame.querySelector("text");
      const name = frame.dataset.name;
      const most = Math.floor((width - 6) / LETTER);
      text.setAttribute("x", x + 3);
      text.textContent = most < 3 ? "" : name.length <= most ? name : name.slice(0, most - 1) + "…";
    }
  };
  for (const frame of frames) {
    frame.addEventListener("click", () => show(frame));
    frame.addEventListener("keydown", (event) => {
      if (event.key === "Enter") show(frame);
    });
  }
})();
