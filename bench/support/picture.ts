/** Draws the measures that have a floor as SVG: a pair of bars for each, on a logarithmic scale. */
import type { Measure } from './report.ts';
import { figure } from './report.ts';

const WIDTH = 760;
const LABEL = 300;
const ROW = 34;
const TOP = 46;

export function picture(title: string, measures: readonly Measure[]): string {
  const shown = measures.filter((m) => m.floor !== undefined);
  const values = shown.flatMap((m) => [m.value, m.floor!]);
  const low = Math.log10(Math.min(...values)) - 0.3;
  const span = Math.log10(Math.max(...values)) - low;
  const length = (value: number) =>
    Math.max(2, ((Math.log10(value) - low) / span) * (WIDTH - LABEL - 110));
  const rows = shown.map((m, n) => row(m, TOP + n * ROW, length));
  const height = TOP + shown.length * ROW + 10;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="10" y="20" font-size="14" font-weight="bold">${escaped(title)}</text>
<text x="10" y="36" fill="#555555">dark: Runledger; light: the bare command, with the ratio to it; logarithmic scale</text>
${rows.join('\n')}
</svg>
`;
}

function row(m: Measure, y: number, length: (value: number) => number): string {
  const ours = length(m.value);
  const bare = length(m.floor!);
  const end = LABEL + Math.max(ours, bare) + 6;
  return `<text x="10" y="${y + 16}">${escaped(m.name)}</text>
<rect x="${LABEL}" y="${y + 3}" width="${ours.toFixed(1)}" height="11" fill="#1f4e79"/>
<rect x="${LABEL}" y="${y + 15}" width="${bare.toFixed(1)}" height="11" fill="#b8cfe6"/>
<text x="${end.toFixed(1)}" y="${y + 12}">${figure(m.value)} ${escaped(m.unit)}</text>
<text x="${end.toFixed(1)}" y="${y + 25}" fill="#555555">${figure(m.floor!)} (x ${figure(m.ratio!)})</text>`;
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
