// A program whose time goes to `hot` and `cold`, three to one, and whose memory is allocated by `allocate`; for some seconds.
function inner(count) {
  let total = 0;
  for (let number = 0; number < count; number++) total += (number * number) % 7;
  return total;
}
function hot() {
  return inner(300000);
}
function cold() {
  return inner(100000);
}
globalThis.kept = [];
function allocate() {
  kept.push(new Array(2000).fill(kept.length + 0.5));
}
const end = Date.now() + Number(process.argv[2]) * 1000;
while (Date.now() < end) {
  hot();
  cold();
  if (kept.length < 500) allocate();
}
