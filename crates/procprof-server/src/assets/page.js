// Shows times in the viewer's zone, lets commands be copied and, on live pages, fetches the lists again now and then.
"use strict";

const REFRESH_MS = 5000;
const shape = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium" });

function localise(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    if (!Number.isNaN(moment.getTime())) element.textContent = (element.classList.contains("clock") ? clock : shape).format(moment);
  }
}

// A button that copies each command, where the browser lets pages copy.
function copyable(root) {
  if (!navigator.clipboard) return;
  for (const block of root.querySelectorAll("pre.command")) {
    if (block.querySelector("button")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    block.prepend(button);
  }
}

async function refresh() {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  localise(fresh);
  copyable(fresh);
  for (const part of document.querySelectorAll("[data-refresh]")) {
    const next = fresh.getElementById(part.id);
    const open = part.querySelector("details[open]");
    if (next && !open && !part.contains(document.activeElement) && next.innerHTML !== part.innerHTML) part.replaceWith(next);
  }
}

localise(document);
copyable(document);
document.addEventListener("click", async (event) => {
  const button = event.target.closest("pre.command button");
  if (!button) return;
  await navigator.clipboard.writeText(button.parentElement.dataset.command);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
if (document.body.hasAttribute("data-live")) {
  setInterval(() => { if (!document.hidden) refresh().catch(() => {}); }, REFRESH_MS);
}
