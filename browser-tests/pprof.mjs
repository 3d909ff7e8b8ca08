/** Writes profiles in pprof's format, as many fields as the tests need. */

/** @param {number | bigint} value */
function varint(value) {
  const bytes = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  while (rest > 127n) {
    bytes.push(Number(rest & 127n) | 128);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, content) => Buffer.concat([varint(field << 3 | 2), varint(content.length), content]);
const packed = (field, values) => bytes(field, Buffer.concat(values.map(varint)));

/**
 * A profile of stacks, each with its root first.
 * @param {[string, string][]} types
 * @param {{stack: string[], values: number[], labels?: Record<string, string>}[]} samples
 * @param {Record<string, {file: string, line: number}>} places Files and lines of functions.
 * @param {string} dropped A regular expression of frames at the leaf to leave out.
 */
export function pprof(types, samples, seconds = 1_700_000_000, places = {}, dropped = '') {
  const strings = [''];
  const known = new Map([['', 0]]);
  const text = (value) => {
    if (!known.has(value)) {
      known.set(value, strings.length);
      strings.push(value);
    }
    return known.get(value);
  };
  const functions = new Map();
  const parts = types.map(([kind, unit]) => bytes(1, Buffer.concat([number(1, text(kind)), number(2, text(unit))])));
  for (const { stack, values, labels = {} } of samples) {
    const locations = stack.map((name) => {
      if (!functions.has(name)) functions.set(name, functions.size + 1);
      return functions.get(name);
    });
    const pairs = Object.entries(labels).map(([key, value]) => bytes(3, Buffer.concat([number(1, text(key)), number(2, text(value))])));
    parts.push(bytes(2, Buffer.concat([packed(1, locations.reverse()), packed(2, values), ...pairs])));
  }
  for (const [name, id] of functions) {
    const { file = '', line = 0 } = places[name] ?? {};
    parts.push(bytes(4, Buffer.concat([number(1, id), bytes(4, Buffer.concat([number(1, id), number(2, line)]))])));
    parts.push(bytes(5, Buffer.concat([number(1, id), number(2, text(name)), number(3, text(name)), number(4, text(file))])));
  }
  if (dropped) parts.push(number(7, text(dropped)));
  parts.push(...strings.map((string) => bytes(6, Buffer.from(string))));
  parts.push(number(9, BigInt(seconds) * 1_000_000_000n), number(10, 1_000_000_000));
  return Buffer.concat(parts);
}
