// @ts-check
/**
 * The plots of the first page, drawn by uPlot in the colours of the page. They are made again when these colours change. Where no
 * mouse is over a plot, its legend has the newest values. So has its name for a screen reader.
 */
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
    const caption = element.parentElement?.querySelector('figcaption')?.textContent ?? name;
    const newest = newestText(labels, columns, name !== 'queue');
    element.setAttribute('aria-label', `${caption}: ${newest}`);
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
      show('queue', ['waiting', 'again', 'running'], queue);
    },
  };
}

/**
 * The last place at which there is any value; -1: there is none.
 * @param {Column[]} columns
 */
function newestOf([times = [], ...series]) {
  return times.findLastIndex((_, n) => series.some((column) => (column[n] ?? null) !== null));
}

/** @param {string[]} labels @param {Column[]} columns @param {boolean} by_minute */
function newestText(labels, columns, by_minute) {
  const at = newestOf(columns);
  if (at === -1) return 'nothing yet';
  const values = labels.map((label, n) => `${label} ${valueText(columns[n + 1]?.[at])}`);
  return `${values.join(', ')} at ${timeText(columns[0]?.[at], by_minute)} UTC`;
}

/** @param {number | null | undefined} value */
function valueText(value) {
  if (value === null || value === undefined) return '–';
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(3)));
}

/** @param {number | null | undefined} at @param {boolean} by_minute */
function timeText(at, by_minute) {
  if (at === null || at === undefined) return '–';
  return new Date(at * 1000).toISOString().slice(11, by_minute ? 16 : 19);
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
  const time = (at) => timeText(at, by_minute);
  /** @param {{ data: Column[] }} plot @param {number} n @param {number | null} at */
  const shown = ({ data }, n, at) => data[n]?.[at ?? newestOf(data)];
  return {
    width: element.clientWidth,
    height: HEIGHT,
    cursor: { drag: { x: false, y: false } },
    scales: {
      x: { range: timeRange },
      y: {
        range: (/** @type {any} */ _, /** @type {any} */ __, /** @type {number | null} */ most) => [
          0,
          Math.max((most ?? 0) * 1.1, 0.01),
        ],
      },
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
      {
        label: 'UTC',
        value: (
          /** @type {any} */ plot,
          /** @type {any} */ _,
          /** @type {number} */ n,
          /** @type {number | null} */ at,
        ) => timeText(shown(plot, n, at), by_minute),
      },
      ...labels.map((label, n) => ({
        label,
        stroke: colour(`--series-${n % COLOURS}`),
        width: 1.5,
        // A minute with no neighbour has no line.
        points: { show: by_minute, size: 4 },
        ...(n >= COLOURS && { dash: [4, 3] }),
        value: (
          /** @type {any} */ plot,
          /** @type {any} */ _,
          /** @type {number} */ index,
          /** @type {number | null} */ at,
        ) => valueText(shown(plot, index, at)),
      })),
    ],
  };
}

/**
 * From the first time to the last one, and a minute at least: uPlot would give a single point some years.
 * @param {{ data: number[][] }} plot
 */
function timeRange({ data: [times = []] }) {
  const first = times[0] ?? Date.now() / 1000;
  return [first, Math.max(times.at(-1) ?? first, first + 60)];
}
