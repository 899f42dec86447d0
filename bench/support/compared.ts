/**
 * Which rows of two bench runs are the same, and how they compare. Pure.
 *
 * How rows are matched:
 * - A row has an id: the name that it had first. So a row that is renamed keeps `was: 'first name'`,
 *   and revisions from before the new name can still be compared.
 * - An indented row belongs to the less indented row above it. Its id is the path of both, because
 *   "p50" alone occurs under several rows. Rows with the same path are numbered.
 * - Rows without a partner are paired in order if both sides have as many left with the same units.
 *   Such a pair shows both names.
 *
 * A ratio of 1 or more means "as fast as before, or faster", whatever the unit. Rows whose unit has
 * no better direction (a share, a count) have no ratio.
 */
import { figure, isMet, type Measure, type Report } from './report.ts';

export type Row = { bench: string; id: string; name: string; measure: Measure };

/** One row of the comparison; a side without this row has null. */
export type Pair = { bench: string; name: string; before: Measure | null; after: Measure | null };

export type Judged = Pair & { ratio: number | null; is_below: boolean };

/** The number of a measure that is compared. */
export type Pick = (measure: Measure) => number;

export function rowsOf({ bench, measures }: Report): Row[] {
  const path: string[] = [];
  const seen = new Map<string, number>();
  return measures.map((measure) => {
    const depth = depthOf(measure.name);
    path.length = depth;
    path[depth] = (measure.was ?? measure.name).trim();
    const name = `${'  '.repeat(depth)}${measure.name.trim()}`;
    const id = path.filter(Boolean).join(' > ');
    const count = (seen.get(id) ?? 0) + 1;
    seen.set(id, count);
    return { bench, id: count === 1 ? id : `${id} (${count})`, name, measure };
  });
}

function depthOf(name: string): number {
  return Math.floor((name.length - name.trimStart().length) / 2);
}

/**
 * The rows of one side over all its rounds. Each row keeps its best round, because other load on the
 * machine can only make a measurement worse.
 */
export function bestOf(rounds: readonly Report[]): Row[] {
  const best = new Map<string, Row>();
  for (const row of rounds.flatMap(rowsOf)) {
    const kept = best.get(row.id);
    const { unit } = row.measure;
    const gain = kept ? gainOf(unit, kept.measure.value, row.measure.value) : null;
    if (!kept || (gain !== null && gain > 1)) best.set(row.id, row);
  }
  return [...best.values()];
}

export function pairRows(before: readonly Row[], after: readonly Row[]): Pair[] {
  const left = new Map(before.map((row) => [row.id, row]));
  const pairs = after.map((row) => {
    const partner = left.get(row.id) ?? null;
    left.delete(row.id);
    return { row, partner };
  });
  const alone = pairs.filter(({ partner }) => partner === null);
  const others = [...left.values()];
  const units = (rows: Row[]) => rows.map(({ measure }) => measure.unit).join();
  const in_order = units(alone.map(({ row }) => row)) === units(others);
  if (in_order)
    alone.forEach((pair, at) => {
      pair.partner = others[at]!;
    });
  const matched = pairs.map(({ row, partner }) => ({
    bench: row.bench,
    name:
      in_order && partner && others.includes(partner)
        ? `${row.name} (was: ${partner.name.trim()})`
        : row.name,
    before: partner?.measure ?? null,
    after: row.measure,
  }));
  const gone = in_order ? [] : others;
  return [
    ...matched,
    ...gone.map(({ bench, name, measure }) => ({ bench, name, before: measure, after: null })),
  ];
}

export function judge(pair: Pair, floor: number, pick: Pick): Judged {
  const { before, after } = pair;
  const ratio = before && after ? gainOf(after.unit, pick(before), pick(after)) : null;
  return { ...pair, ratio, is_below: ratio !== null && ratio < floor };
}

/** How many times better `after` is; null where neither direction is better, or a value is not positive. */
function gainOf(unit: string, before: number, after: number): number | null {
  if (!(before > 0 && after > 0)) return null;
  if (unit.endsWith('/s')) return after / before;
  return LOWER_IS_BETTER.has(unit) ? before / after : null;
}

const LOWER_IS_BETTER = new Set(['us', 'ms', 's', 'executions']);

export const TABLE_HEAD = ['', 'unit', 'before', 'after', 'ratio', 'goal', 'result'];

export function tableRow(judged: Judged, pick: Pick): string[] {
  const { before, after, ratio } = judged;
  const shown = (measure: Measure | null) => (measure ? figure(pick(measure)) : '-');
  return [
    `${judged.bench}: ${judged.name}`,
    (after ?? before)!.unit,
    shown(before),
    shown(after),
    ratio === null ? '-' : ratio.toFixed(2),
    after ? goalOf(after) : '',
    resultOf(judged),
  ];
}

function goalOf(measure: Measure): string {
  const met = isMet(measure);
  if (met === null) return '';
  const goal = measure.at_least === undefined ? `<= ${measure.at_most}` : `>= ${measure.at_least}`;
  return `${figure(measure.ratio ?? measure.value)} ${goal} ${met ? 'met' : 'MISSED'}`;
}

function resultOf({ before, after, is_below, ratio }: Judged): string {
  if (!before) return 'new';
  if (!after) return 'gone';
  if (ratio === null) return '';
  return is_below ? 'BELOW' : 'ok';
}
