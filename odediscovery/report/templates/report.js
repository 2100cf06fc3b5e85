// A click on a point of the front, or on its row, shows the equations and curves of that row.
"use strict";
const show = (row) => {
  for (const part of document.querySelectorAll("[data-row]")) {
    const on = part.dataset.row === row;
    part.classList.toggle("on", on);
    if (part.matches("button")) part.setAttribute("aria-pressed", on);
  }
};
const points = [...document.querySelectorAll(".front .point")];
for (const button of document.querySelectorAll("button.show")) {
  button.addEventListener("click", () => show(button.dataset.row));
}
for (const point of points) {
  point.setAttribute("tabindex", "0");
  point.setAttribute("role", "button");
  const label = document.querySelector(`button.show[data-row="${point.dataset.row}"]`);
  point.setAttribute("aria-label", label.getAttribute("aria-label"));
  point.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      show(point.dataset.row);
    }
  });
}
// A finger is wider than a point: the nearest one is meant.
const drawing = document.querySelector(".drawing.front");
if (drawing) {
  drawing.addEventListener("click", (event) => {
    const near = points.map((point) => {
      const box = point.getBoundingClientRect();
      const x = box.x + box.width / 2 - event.clientX;
      const y = box.y + box.height / 2 - event.clientY;
      return [Math.hypot(x, y), point.dataset.row];
    }).sort((a, b) => a[0] - b[0])[0];
    if (near && near[0] < 48) show(near[1]);
  });
}
