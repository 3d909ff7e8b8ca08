// What the pages do beyond tables and forms: times in the viewer's zone, fresh lists, commands and links to copy,
// ranges of the timeline, the selection of rows, and filtering lists and suggesting nodes while typing.
"use strict";

const REFRESH_MS = 5000;
const SUGGEST_MS = 200;
const DAY_MS = 86400000;
const SHAPES = {
  moment: new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" }),
  clock: new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium" }),
  minute: new Intl.DateTimeFormat("sv-SE", { timeStyle: "short" }),
  day: new Intl.DateTimeFormat("sv-SE", { dateStyle: "short" }),
};

const TEXTS = JSON.parse(document.body.dataset.texts ?? "{}");

// A text in the language of the page; `{0}` and so on stand for values.
function say(english, ...values) {
  return (TEXTS[english] ?? english).replace(/\{(\d)\}/g, (_, number) => values[number]);
}

function localise(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    const shape = Object.keys(SHAPES).find((name) => element.classList.contains(name)) ?? "moment";
    if (!element.title) element.title = element.textContent;
    element.textContent = SHAPES[shape].format(moment);
  }
}

// A button that copies each command, where the browser lets pages copy.
function copyable(root) {
  if (!navigator.clipboard) return;
  for (const block of root.querySelectorAll("pre.command")) {
    if (block.querySelector("button")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = say("Copy");
    block.prepend(button);
  }
  for (const link of root.querySelectorAll("a.copy-link")) link.textContent = say("Copy link");
}

async function copy(text, element, done) {
  const before = element.textContent;
  await navigator.clipboard.writeText(text);
  element.textContent = done;
  setTimeout(() => { element.textContent = before; }, 1500);
}

/// Whether a part of the page is in use: opened, chosen otherwise than it came, focused or marked.
function busy(part) {
  const chosen = [...part.querySelectorAll("input")].some((input) => input.checked !== input.defaultChecked);
  return chosen || part.querySelector("details[open]:not([data-keep])") !== null || part.contains(document.activeElement) || part.matches(":has(.brush)");
}

/// A page by its path, from the origin: the address of this page may contain a name and password, which fetch refuses.
function answerOf(path) {
  return fetch(new URL(path, location.origin), { headers: { accept: "text/html" } });
}

// Fills the parts of a page that wait for a node.
async function fetchParts() {
  for (const part of document.querySelectorAll("[data-fetch]")) {
    if (busy(part)) continue;
    const response = await answerOf(root() + part.dataset.fetch);
    if (!response.ok) continue;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    localise(fresh);
    if (!busy(part) && part.innerHTML !== fresh.body.innerHTML) part.replaceChildren(...fresh.body.childNodes);
    part.dataset.fetched = "";
  }
}

async function refresh() {
  const response = await answerOf(location.pathname + location.search);
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  localise(fresh);
  copyable(fresh);
  for (const part of document.querySelectorAll("[data-refresh]")) {
    const next = fresh.getElementById(part.id);
    if (next && !busy(part) && next.innerHTML !== part.innerHTML) part.replaceWith(next);
  }
  await fetchParts();
}

// The selection: what can be done with so many rows.
function select() {
  const form = document.getElementById("selection");
  if (!form) return;
  const count = document.querySelectorAll("input[form=selection]:checked").length;
  form.classList.toggle("active", count > 0);
  form.querySelector(".count").textContent = count === 0 ? say("Select profiles to view, compare or merge them.") : say("{0} selected", count);
  for (const button of form.querySelectorAll("button[data-count]")) {
    const wanted = button.dataset.count;
    button.disabled = wanted === "2+" ? count < 2 : count !== Number(wanted);
    button.hidden = count === 0;
  }
}

// Dragging over the timeline chooses a range.
function brush(lanes, down) {
  const lane = down.target.closest(".lane");
  const area = lane?.querySelector("svg.bars")?.getBoundingClientRect();
  if (!area || down.button !== 0 || down.clientX < area.left) return;
  const outer = lanes.getBoundingClientRect();
  const mark = document.createElement("div");
  mark.className = "brush";
  const inside = (x) => Math.min(Math.max(x, area.left), area.right);
  const from = Date.parse(lanes.dataset.from);
  const period = Date.parse(lanes.dataset.to) - from;
  const at = (x) => from + ((x - area.left) / area.width) * period;
  let range = null;
  const move = (event) => {
    const [left, right] = [inside(down.clientX), inside(event.clientX)].sort((a, b) => a - b);
    if (right - left < 4 && !range) return;
    if (!range) {
      lanes.querySelectorAll(".brush").forEach((old) => old.remove());
      lanes.append(mark);
    }
    mark.style.left = `${left - outer.left}px`;
    mark.style.width = `${right - left}px`;
    range = [new Date(at(left)), new Date(at(right))];
    event.preventDefault();
  };
  const up = (end) => {
    removeEventListener("pointermove", move);
    removeEventListener("pointerup", up);
    removeEventListener("pointercancel", cancel);
    if (!range) return;
    // The click that ends a drag does not follow a bar's link.
    const swallow = (event) => {
      if (event.timeStamp - end.timeStamp > 50) return;
      event.preventDefault();
      event.stopPropagation();
    };
    // The drag of a finger ends without a click.
    if (end.pointerType !== "touch") addEventListener("click", swallow, { capture: true, once: true });
    setTimeout(() => { offer(lanes, lane.dataset.type, range, count(lane, area, mark)); }, 0);
  };
  // A finger that scrolls the page after all.
  const cancel = () => {
    range = null;
    mark.remove();
    up();
  };
  addEventListener("pointermove", move);
  addEventListener("pointerup", up);
  addEventListener("pointercancel", cancel);
}

function count(lane, area, mark) {
  const marked = mark.getBoundingClientRect();
  return [...lane.querySelectorAll("svg.bars a rect")].filter((bar) => {
    const box = bar.getBoundingClientRect();
    return box.right >= marked.left && box.right <= marked.right;
  }).length;
}

// The path under which a proxy shows the server, without a slash at its end.
function root() {
  return document.querySelector("a.brand").getAttribute("href").replace(/\/$/, "");
}

// What can be done with a range.
function offer(lanes, type, [from, to], bars) {
  document.querySelectorAll(".brushed").forEach((old) => old.remove());
  const bar = document.createElement("p");
  bar.className = "brushed";
  bar.setAttribute("role", "status");
  const text = document.createElement("span");
  const shown = [SHAPES.moment.format(from), SHAPES.clock.format(to), bars, type];
  text.textContent = bars === 1 ? say("{0} to {1}: 1 bar of {3}", ...shown) : say("{0} to {1}: {2} bars of {3}", ...shown);
  const query = (fields) => new URLSearchParams({ node: lanes.dataset.node, type, ...fields }).toString();
  const range = { from: from.toISOString(), to: to.toISOString() };
  const before = (moment) => new Date(moment.getTime() - DAY_MS).toISOString();
  const link = (label, href) => {
    const element = document.createElement("a");
    element.textContent = label;
    element.href = root() + href;
    return element;
  };
  const clear = document.createElement("button");
  clear.type = "button";
  clear.textContent = say("Clear");
  clear.addEventListener("click", () => { bar.remove(); lanes.querySelectorAll(".brush").forEach((old) => old.remove()); });
  bar.append(
    text,
    link(say("Merge"), `/merge?${query(range)}`),
    link(say("Compare with the day before"), `/merge?${query({ ...range, base_from: before(from), base_to: before(to) })}`),
    link(say("List"), `/proc_profile?${query(range)}`),
    clear,
  );
  lanes.after(bar);
}

// A list that is filtered while its box is typed in.
function filter(box) {
  const wanted = box.value.trim().toLowerCase();
  for (const item of document.querySelectorAll(box.dataset.filter)) item.hidden = !item.textContent.toLowerCase().includes(wanted);
}

// Suggests the nodes whose names have the text that is typed.
let suggesting = 0;
function suggest(box) {
  clearTimeout(suggesting);
  suggesting = setTimeout(async () => {
    const response = await fetch(new URL(root() + box.dataset.suggest + encodeURIComponent(box.value), location.origin));
    if (!response.ok) return;
    const names = (await response.json()).nodes.map((node) => {
      const option = document.createElement("option");
      option.value = node.name;
      return option;
    });
    box.list.replaceChildren(...names);
  }, SUGGEST_MS);
}

localise(document);
copyable(document);
select();
fetchParts().catch(() => {});
document.addEventListener("click", (event) => {
  const button = event.target.closest("pre.command button");
  if (button) copy(button.parentElement.dataset.command, button, say("Copied"));
  const link = event.target.closest("a.copy-link");
  if (link && navigator.clipboard) {
    event.preventDefault();
    copy(link.href, link, say("Copied"));
  }
  for (const open of document.querySelectorAll("details.menu[open], details.popover[open], details.picker[open], details.more-filters[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  // The flame graph viewer has these keys itself.
  const isFree = !event.target.closest?.("input, select, textarea") && !document.getElementById("viewer");
  if (!event.ctrlKey && !event.metaKey && !event.altKey && isFree) {
    const box = event.key === "/" ? document.querySelector("main input[type=search]") : null;
    if (box) {
      event.preventDefault();
      box.focus();
    }
    if (event.key === "?") location.href = `${root()}/help`;
  }
  if (event.key !== "Escape") return;
  const open = document.activeElement?.closest("details[open]");
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
document.addEventListener("change", (event) => { if (event.target.matches("input[form=selection]")) select(); });
document.addEventListener("input", (event) => {
  if (event.target.dataset.filter) filter(event.target);
  if (event.target.dataset.suggest) suggest(event.target);
});
document.addEventListener("pointerdown", (event) => {
  const lanes = event.target.closest?.(".lanes");
  if (lanes) brush(lanes, event);
});
// A file that is dropped anywhere on the page is opened.
const drop = document.querySelector("form[data-drop]");
if (drop) {
  for (const name of ["dragenter", "dragover"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) drop.classList.remove("over"); });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length === 0) return;
    drop.querySelector("input[type=file]").files = event.dataTransfer.files;
    drop.requestSubmit();
  });
}
document.addEventListener("dragstart", (event) => { if (event.target.closest?.(".lanes")) event.preventDefault(); });
if (document.body.hasAttribute("data-live")) {
  setInterval(() => { if (!document.hidden) refresh().catch(() => {}); }, REFRESH_MS);
}
