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
 * no better direction (a share, a count) have no ratio, and neither has a row that repeats the value
 * of the row above it beside another floor: it is one measurement, which must not count twice.
 */
import { figure, isMet, type Measure, type Report } from './report.ts';

export type Row = {
  bench: string;
  id: string;
  /** indented as in its report */
  name: string;
  /** the names of the rows above it and its own */
  path: string;
  measure: Measure;
  /** it has the value of the row above it, beside another floor */
  is_repeat: boolean;
};

/** One row of the comparison; a side without this row has null. */
export type Pair = Omit<Row, 'id' | 'measure'> & { before: Measure | null; after: Measure | null };

export type Judged = Pair & { ratio: number | null; is_below: boolean };

/** The number of a measure that is compared. */
export type Pick = (measure: Measure) => number;

export function rowsOf({ bench, measures }: Report): Row[] {
  const above: Measure[] = [];
  const seen = new Map<string, number>();
  return measures.map((measure) => {
    const depth = depthOf(measure.name);
    const is_repeat = above[depth - 1]?.value === measure.value;
    above.length = depth;
    above[depth] = measure;
    const pathOf = (nameOf: (one: Measure) => string) =>
      above.map((one) => nameOf(one).trim()).join(' > ');
    const id = pathOf((one) => one.was ?? one.name);
    const count = (seen.get(id) ?? 0) + 1;
    seen.set(id, count);
    return {
      bench,
      id: count === 1 ? id : `${id} (${count})`,
      name: measure.name,
      path: pathOf((one) => one.name),
      measure,
      is_repeat,
    };
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
  const matched = pairs.map(({ row: { id: _, measure, ...row }, partner }) => ({
    ...row,
    is_repeat: row.is_repeat && partner?.is_repeat === true,
    name:
      in_order && partner && others.includes(partner)
        ? `${row.name} (was: ${partner.name.trim()})`
        : row.name,
    before: partner?.measure ?? null,
    after: measure,
  }));
  const gone = in_order ? [] : others;
  return [
    ...matched,
    ...gone.map(({ id: _, measure, ...row }) => ({ ...row, before: measure, after: null })),
  ];
}

export function judge(pair: Pair, floor: number, pick: Pick): Judged {
  const { before, after } = pair;
  const is_repeat = pair.is_repeat && after !== null && pick(after) === after.value;
  const ratio =
    before && after && !is_repeat ? gainOf(after.unit, pick(before), pick(after)) : null;
  return { ...pair, ratio, is_below: ratio !== null && ratio < floor };
}

/** How many times better `after` is; null where neither direction is better, or a value is not positive. */
function gainOf(unit: string, before: number, after: number): number | null {
  if (!(before > 0 && after > 0)) return null;
  const better = betterOf(unit);
  if (better === 'higher') return after / before;
  return better === 'lower' ? before / after : null;
}

const LOWER_IS_BETTER = 'µs|us|ms|s|ms/s|bytes|MB|MiB|cores|executions|tests|events'.split('|');
/** A share or a count. */
const NEITHER_IS_BETTER = ['', '%'];

export function betterOf(unit: string): 'higher' | 'lower' | 'neither' {
  if (LOWER_IS_BETTER.includes(unit)) return 'lower';
  if (unit.endsWith('/s')) return 'higher';
  if (NEITHER_IS_BETTER.includes(unit)) return 'neither';
  throw new Error(`nothing says whether more or fewer ${unit} are better: name it in compared.ts`);
}

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

function resultOf({ before, after, is_below, is_repeat, ratio }: Judged): string {
  if (!before) return 'new';
  if (!after) return 'gone';
  if (ratio === null) return is_repeat ? 'as above' : '';
  return is_below ? 'BELOW' : 'ok';
}
