/**
 * Counters, gauges and histograms in the Prometheus text format (0.0.4). Names begin with `runledger_` and end in their
 * base unit. No id is ever a label, because the number of series would grow without bound.
 */
type Labels = Readonly<Record<string, string>>;

export type Counter = { add(labels?: Labels, by?: number): void };
export type Histogram = { observe(value: number, labels?: Labels): void };
/** Called when the metrics are read. Returns a value, or one for each set of labels, or null for no value. */
export type GaugeRead = () => number | readonly (readonly [Labels, number])[] | null;

export type Metrics = {
  counter(name: string, help: string): Counter;
  histogram(name: string, help: string, buckets: readonly number[]): Histogram;
  gauge(name: string, help: string, read: GaugeRead | (() => Promise<ReturnType<GaugeRead>>)): void;
  /** All metrics as one page of Prometheus text. */
  text(): Promise<string>;
};

type Family = { name: string; help: string; type: string; lines(): Promise<string[]> | string[] };

/** In seconds: from a cache hit to a waiting request. */
export const DURATION_BUCKETS_S = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
];

export function createMetrics(): Metrics {
  const families = new Map<string, Family>();
  const add = (family: Family) => {
    if (!/^runledger_[a-z0-9_]+$/.test(family.name)) throw new Error(`bad name: ${family.name}`);
    if (families.has(family.name)) throw new Error(`${family.name} is already defined`);
    families.set(family.name, family);
  };
  return {
    counter(name, help) {
      const values = new Map<string, number>();
      const lines = () => [...values].map(([labels, value]) => `${name}${labels} ${value}`);
      add({ name, help, type: 'counter', lines });
      return {
        add(labels = {}, by = 1) {
          const key = labelText(labels);
          values.set(key, (values.get(key) ?? 0) + by);
        },
      };
    },
    histogram(name, help, buckets) {
      const series = new Map<string, Series>();
      const lines = () => [...series.values()].flatMap((one) => histogramLines(name, buckets, one));
      add({ name, help, type: 'histogram', lines });
      return {
        observe(value, labels = {}) {
          const key = labelText(labels);
          let one = series.get(key);
          if (one === undefined) {
            one = { labels, counts: new Array<number>(buckets.length + 1).fill(0), sum: 0 };
            series.set(key, one);
          }
          const at = buckets.findIndex((edge) => value <= edge);
          one.counts[at === -1 ? buckets.length : at]! += 1;
          one.sum += value;
        },
      };
    },
    gauge(name, help, read) {
      add({ name, help, type: 'gauge', lines: async () => gaugeLines(name, await read()) });
    },
    async text() {
      const texts: string[] = [];
      for (const family of families.values()) texts.push(await familyText(family));
      return texts.join('');
    },
  };
}

type Series = { labels: Labels; counts: number[]; sum: number };

async function familyText({ name, help, type, lines }: Family): Promise<string> {
  // A gauge that cannot be read must not hide the other metrics.
  const all = await Promise.resolve()
    .then(lines)
    .catch(() => []);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...all, ''].join('\n');
}

function gaugeLines(name: string, value: ReturnType<GaugeRead>): string[] {
  if (value === null) return [];
  if (typeof value === 'number') return [`${name} ${value}`];
  return value.map(([labels, one]) => `${name}${labelText(labels)} ${one}`);
}

function histogramLines(name: string, edges: readonly number[], series: Series): string[] {
  let below = 0;
  const buckets = [...edges.map(String), '+Inf'].map((le, at) => {
    below += series.counts[at]!;
    return `${name}_bucket${labelText({ ...series.labels, le })} ${below}`;
  });
  const labels = labelText(series.labels);
  return [...buckets, `${name}_sum${labels} ${series.sum}`, `${name}_count${labels} ${below}`];
}

function labelText(labels: Labels): string {
  const names = Object.keys(labels).sort();
  if (names.length === 0) return '';
  return `{${names.map((name) => `${name}="${escapeLabel(labels[name]!)}"`).join(',')}}`;
}

function escapeLabel(value: string): string {
  return value.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');
}
