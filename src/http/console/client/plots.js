// @ts-check
/** The plots of the first page, drawn by uPlot in the colours of the page. They are made again when these colours change. */
// @ts-expect-error: served beside this file, and named so by no package
import Plot from './uplot.js';

/** @typedef {import('../live.ts').LiveState['hour']} Hour */
/** @typedef {(number | null)[]} Column */
/** @typedef {{ label: string; stroke: string; dash?: number[] }} Series */

const HEIGHT = 180;
const COLOURS = 8;
const dark = matchMedia('(prefers-color-scheme: dark)');

/** @param {(name: string) => HTMLElement} place */
export function createPlots(place) {
  /** @type {Map<string, { plot: any; labels: string }>} */
  const made = new Map();

  function clear() {
    for (const { plot } of made.values()) plot.destroy();
    made.clear();
  }
  dark.addEventListener('change', clear);

  const resized = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const name = /** @type {HTMLElement} */ (target).dataset['plot'] ?? '';
      made.get(name)?.plot.setSize({ width: contentRect.width, height: HEIGHT });
    }
  });

  /** @param {string} name @param {string[]} labels @param {Column[]} columns */
  function show(name, labels, columns) {
    const element = place(name);
    const known = made.get(name);
    // Other series need another plot.
    if (known?.labels === labels.join()) return known.plot.setData(columns);
    known?.plot.destroy();
    const plot = new Plot(optionsOf(element, labels, name !== 'queue'), columns, element);
    made.set(name, { plot, labels: labels.join() });
    resized.observe(element);
  }

  return {
    /** @param {Hour} hour @param {number[][]} queue */
    show(hour, queue) {
      show('per_s', ['a second'], [hour.minutes, hour.per_s]);
      show('latency', ['p50', 'p95', 'p99'], [hour.minutes, ...hour.latency_s]);
      const verdicts = Object.keys(hour.verdicts);
      show('verdicts', verdicts, [hour.minutes, ...Object.values(hour.verdicts)]);
      show('queue', ['waiting', 'running'], queue);
    },
  };
}

/**
 * @param {HTMLElement} element
 * @param {string[]} labels
 * @param {boolean} by_minute
 */
function optionsOf(element, labels, by_minute) {
  const style = getComputedStyle(element);
  /** @param {string} name */
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--text'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { stroke: colour('--line'), width: 1 },
  };
  /** @param {number | null} at */
  const time = (at) =>
    at === null ? '–' : new Date(at * 1000).toISOString().slice(11, by_minute ? 16 : 19);
  return {
    width: element.clientWidth,
    height: HEIGHT,
    scales: {
      x: { range: fromTo(Date.now() / 1000, (least, most) => [least, Math.max(most, least + 60)]) },
      y: { range: fromTo(0, (_, most) => [0, Math.max(most * 1.1, 0.01)]) },
    },
    // Times are UTC, as everywhere in the console.
    axes: [
      {
        ...axis,
        space: 70,
        values: (/** @type {any} */ _, /** @type {number[]} */ ats) => ats.map(time),
      },
      { ...axis, size: 56 },
    ],
    series: [
      { label: 'UTC', value: (/** @type {any} */ _, /** @type {number | null} */ at) => time(at) },
      ...labels.map((label, n) => ({
        label,
        stroke: colour(`--series-${n % COLOURS}`),
        width: 1.5,
        // A minute with no neighbour has no line.
        points: { show: by_minute, size: 4 },
        ...(n >= COLOURS && { dash: [4, 3] }),
        value: (/** @type {any} */ _, /** @type {number | null} */ value) =>
          value === null ? '–' : String(Number(value.toPrecision(3))),
      })),
    ],
  };
}

/**
 * The range of an axis, from the least and the most of its values; without any, both are `none`.
 * @param {number} none
 * @param {(least: number, most: number) => [number, number]} range
 */
function fromTo(none, range) {
  return (
    /** @type {any} */ _,
    /** @type {number | null} */ least,
    /** @type {number | null} */ most,
  ) => range(least ?? none, most ?? none);
}
