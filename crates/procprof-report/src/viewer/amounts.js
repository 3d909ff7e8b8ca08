/** Readable values, the same texts as `amount.rs` writes. */

/** @typedef {{family: string, factor: number, unit: string, what: string, kind: string}} Amount */

/** @type {Record<string, [number, number, string][]>} */
const AMOUNT_STEPS = {
  time: [[1e3, 1, 'ns'], [1e6, 1e3, '\u00b5s'], [1e9, 1e6, 'ms'], [120e9, 1e9, 's'], [7200e9, 60e9, 'min'],
    [Infinity, 3600e9, 'h']],
  bytes: [[1024, 1, 'B'], [1048576, 1024, 'KiB'], [1073741824, 1048576, 'MiB'], [1099511627776, 1073741824, 'GiB'],
    [Infinity, 1099511627776, 'TiB']],
};

/**
 * The number with a comma between groups of three digits.
 * @param {number} number
 */
export function grouped(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/**
 * The value with its unit: `8.73 s`, `-12.5 MiB`, `1,234`.
 * @param {Amount} amount
 * @param {number} value
 */
export function amountText(amount, value) {
  const sign = value < 0 ? '-' : '';
  const steps = AMOUNT_STEPS[amount.family];
  if (!steps) return sign + grouped(Math.abs(value)) + (amount.unit ? ' ' + amount.unit : '');
  if (!value) return amount.family === 'time' ? '0 s' : '0 B';
  const base = Math.abs(value) * amount.factor;
  const [, step, unit] = steps.find(([below]) => base < below) ?? steps[steps.length - 1];
  const scaled = base / step;
  const whole = base < steps[0][0] && base % 1 === 0;
  return sign + scaled.toFixed(whole || scaled >= 100 ? 0 : scaled < 10 ? 2 : 1) + ' ' + unit;
}

/**
 * The same with a plus sign if it is above 0.
 * @param {Amount} amount
 * @param {number} value
 */
export function signedText(amount, value) {
  return (value > 0 ? '+' : '') + amountText(amount, value).replace('-', '\u2212');
}

/**
 * The share in percent: `34.21%`, `<0.01%`; `0%` and `100%` only where exact.
 * @param {number} value
 * @param {number} total
 */
export function percent(value, total) {
  if (!total || !value) return '0%';
  if (value === total) return '100%';
  const share = value / total * 100;
  if (share < 100 && share >= 99.995) return '>99.99%';
  return Math.abs(share) < 0.005 ? '<0.01%' : share.toFixed(2) + '%';
}
