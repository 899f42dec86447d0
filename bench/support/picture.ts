/**
 * Draws the figures of README as one SVG of three panels: the time of one call, the runs in a second, and what a long history
 * costs. It follows the reader's choice of dark or light.
 */
import { figure, type Measure } from './report.ts';

const WIDTH = 830;
const LEFT = 250;
const RIGHT = 150;
const PLOT = WIDTH - LEFT - RIGHT;
const ROW = 40;
const BAR = 14;
const HEAD = 64;
const FOOT = 40;
/** Of the panel with lines. */
const LINES_HEIGHT = 180;
const MOST_RATIO = 1.25;

const STYLE = `
:root { --back: #ffffff; --text: #1f2328; --soft: #59636e; --grid: #d1d9e0; --ours: #0969da; --bare: #a5b4c4; --other: #9a6700 }
@media (prefers-color-scheme: dark) {
  :root { --back: #0d1117; --text: #f0f6fc; --soft: #9198a1; --grid: #3d444d; --ours: #4493f8; --bare: #656c76; --other: #d29922 }
}
text { font: 14px sans-serif; fill: var(--text) }
.title { font-weight: bold; font-size: 16px }
.soft { fill: var(--soft) }
.grid { stroke: var(--grid) }
.ours { fill: var(--ours) }
.bare { fill: var(--bare) }
.other { fill: var(--other) }
.line { fill: none; stroke: var(--ours); stroke-width: 2.5 }
.line.of-other { stroke: var(--other) }`;

/** The rows of the service's bench, and of the fleet's. `at`: the day. */
export function picture(
  at: string,
  service: readonly Measure[],
  fleet: readonly Measure[],
): string {
  const rowsOf = (end: string) =>
    service
      .filter(({ name, floor }) => name.endsWith(end) && floor !== undefined)
      .map((measure) => ({ ...measure, name: measure.name.slice(0, -end.length) }));
  const panels = [
    bars('One call at a time: milliseconds until the result', 'lower is better', rowsOf(': p50')),
    bars('16 clients: runs per second', 'higher is better', rowsOf(': rate')),
    lines('A long history: one call, and runs per second, over those of an empty log', fleet),
  ].filter((panel) => panel !== null);
  let top = 0;
  const drawn = panels.map(({ height, inside }) => {
    const moved = `<g transform="translate(0 ${top})">${inside}</g>`;
    top += height;
    return moved;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${top + 24}" viewBox="0 0 ${WIDTH} ${top + 24}" role="img">
<title>${escaped(`The speed of Runledger, ${at}`)}</title>
<style>${STYLE}
</style>
<rect width="100%" height="100%" style="fill: var(--back)"/>
${drawn.join('\n')}
${text(10, top + 12, `Runledger, ${at}. Logarithmic scales where bars are.`, 'soft')}
</svg>
`;
}

type Panel = { height: number; inside: string } | null;

/** A pair of bars for each measure, on a logarithmic scale. */
function bars(title: string, better: string, measures: readonly Measure[]): Panel {
  if (measures.length === 0) return null;
  const values = measures.flatMap(({ value, floor }) => [value, floor!]);
  // The shortest bar has a length that can be seen.
  const low = Math.floor(Math.log10(Math.min(...values) / 2));
  const high = Math.ceil(Math.log10(Math.max(...values)));
  const x = (value: number) => LEFT + ((Math.log10(value) - low) / (high - low)) * PLOT;
  const bottom = HEAD + measures.length * ROW;
  const ticks = Array.from({ length: high - low + 1 }, (_, n) => 10 ** (low + n)).map(
    (value) =>
      `<line class="grid" x1="${at(x(value))}" x2="${at(x(value))}" y1="${HEAD - 6}" y2="${bottom}"/>${text(x(value), bottom + 18, value.toLocaleString('en'), 'soft', 'middle')}`,
  );
  const rows = measures.map(({ name, value, floor, ratio }, n) => {
    const y = HEAD + n * ROW;
    const bar = (kind: string, of: number, from: number) =>
      `<rect class="${kind}" x="${LEFT}" y="${y + from}" width="${at(Math.max(2, x(of) - LEFT))}" height="${BAR}"/>`;
    const end = Math.max(x(value), x(floor!)) + 8;
    return [
      text(10, y + 20, name),
      bar('ours', value, 2),
      bar('bare', floor!, 2 + BAR + 2),
      text(end, y + 14, `${figure(value)} (× ${figure(ratio!)})`),
      text(end, y + 31, figure(floor!), 'soft'),
    ].join('');
  });
  const legend = [
    `<rect class="ours" x="10" y="36" width="12" height="12"/>`,
    text(28, 47, 'Runledger (in brackets: over the bare command)'),
    `<rect class="bare" x="380" y="36" width="12" height="12"/>`,
    text(398, 47, 'the bare command'),
    text(WIDTH - 10, 47, better, 'soft', 'end'),
  ].join('');
  const inside = [text(10, 20, title, 'title'), legend, ...ticks, ...rows].join('\n');
  return { height: bottom + FOOT, inside };
}

/** Two lines over the number of submissions, each a ratio to the same without a history. */
function lines(title: string, measures: readonly Measure[]): Panel {
  const points = measures.flatMap(({ name, ratio }) => {
    const [, size, kind] = /^([\d,]+) submissions in the log.*: (p50|rate)$/.exec(name) ?? [];
    return size === undefined ? [] : [{ size: Number(size.replaceAll(',', '')), kind, ratio }];
  });
  if (points.length === 0) return null;
  const sizes = [...new Set(points.map(({ size }) => size))];
  const bottom = HEAD + LINES_HEIGHT;
  const first = Math.log10(Math.min(...sizes));
  const span = Math.log10(Math.max(...sizes)) - first || 1;
  const x = (size: number) => 60 + ((Math.log10(size) - first) / span) * (WIDTH - 60 - RIGHT);
  const y = (ratio: number) => bottom - (ratio / MOST_RATIO) * LINES_HEIGHT;
  const levels = [0, 0.25, 0.5, 0.75, 1, 1.25].map(
    (level) =>
      `<line class="grid" x1="60" x2="${WIDTH - RIGHT}" y1="${at(y(level))}" y2="${at(y(level))}"/>${text(52, y(level) + 5, level.toFixed(2), 'soft', 'end')}`,
  );
  const labels = sizes.map((size) =>
    text(x(size), bottom + 20, size.toLocaleString('en'), 'soft', 'middle'),
  );
  const line = (kind: string, css: string, dot: string, label: string) => {
    const own = points.filter((point) => point.kind === kind);
    const path = own.map(({ size, ratio }) => `${at(x(size))},${at(y(ratio!))}`).join(' ');
    const dots = own.map(
      ({ size, ratio }) =>
        `<circle class="${dot}" cx="${at(x(size))}" cy="${at(y(ratio!))}" r="4"/>`,
    );
    const last = own.at(-1)!;
    const above = kind === 'p50' ? -8 : 20;
    const end = text(x(last.size) + 10, y(last.ratio!) + above, `${label} ${figure(last.ratio!)}`);
    return `<polyline class="${css}" points="${path}"/>${dots.join('')}${end}`;
  };
  const inside = [
    text(10, 20, title, 'title'),
    text(10, 47, 'by the number of submissions in the log; 1 is the same as without them', 'soft'),
    ...levels,
    ...labels,
    line('p50', 'line', 'ours', 'one call'),
    line('rate', 'line of-other', 'other', 'runs/s'),
  ].join('\n');
  return { height: bottom + FOOT, inside };
}

const at = (value: number) => value.toFixed(1);

function text(x: number, y: number, words: string, css = '', anchor = 'start'): string {
  const kind = css && ` class="${css}"`;
  const side = anchor === 'start' ? '' : ` text-anchor="${anchor}"`;
  return `<text x="${at(x)}" y="${at(y)}"${kind}${side}>${escaped(words)}</text>`;
}

const escaped = (words: string) =>
  words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
