/**
 * Counters, gauges and histograms in the Prometheus text format (0.0.4). Names begin with `runledger_` and end in their
 * base unit. No id is ever a label, because the number of series would grow without bound.
 */
type Labels<L extends string = string> = Readonly<Record<L, string>>;

/** Add 0 where an alert looks at it: a counter that first appears with 1 has not grown for Prometheus. */
export type Counter<L extends string> = { add(labels?: Labels<L>, by?: number): void };
export type Histogram<L extends string> = { observe(value: number, labels?: Labels<L>): void };
/** Called when the metrics are read. Returns a value, or one for each set of labels, or null for no value. */
type Read<L extends string> = () => Values<L> | Promise<Values<L>>;
type Values<L extends string> = number | readonly (readonly [Labels<L>, number])[] | null;

/** The names of the labels come last. A metric without them has one value. */
export type Metrics = {
  counter<L extends string = never>(name: string, help: string, labels?: readonly L[]): Counter<L>;
  histogram<L extends string = never>(
    name: string,
    help: string,
    buckets: readonly number[],
    labels?: readonly L[],
  ): Histogram<L>;
  gauge<L extends string = never>(
    name: string,
    help: string,
    read: Read<L>,
    labels?: readonly L[],
  ): void;
  /** A counter whose value is read where it is kept. */
  total(name: string, help: string, read: Read<never>): void;
  /** What there is, also of metrics that have no value yet. */
  families(): readonly MetricFamily[];
  /** All metrics as one page of Prometheus text. */
  text(): Promise<string>;
};

export type MetricFamily = {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
};

type Family = MetricFamily & { lines(): Promise<string[]> | string[] };

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
  const addRead = (family: MetricFamily, read: Read<string>) =>
    add({ ...family, lines: async () => valueLines(family.name, await read()) });
  return {
    counter(name, help, labels = []) {
      const values = new Map<string, number>();
      const lines = () => [...values].map(([key, value]) => `${name}${key} ${value}`);
      add({ name, help, type: 'counter', labels, lines });
      return {
        add(of = {} as Labels, by = 1) {
          const key = labelText(of);
          values.set(key, (values.get(key) ?? 0) + by);
        },
      };
    },
    histogram(name, help, buckets, labels = []) {
      const series = new Map<string, Series>();
      const lines = () => [...series.values()].flatMap((one) => histogramLines(name, buckets, one));
      add({ name, help, type: 'histogram', labels, lines });
      return {
        observe(value, of = {} as Labels) {
          const key = labelText(of);
          let one = series.get(key);
          if (one === undefined) {
            one = { labels: of, counts: new Array<number>(buckets.length + 1).fill(0), sum: 0 };
            series.set(key, one);
          }
          const at = buckets.findIndex((edge) => value <= edge);
          one.counts[at === -1 ? buckets.length : at]! += 1;
          one.sum += value;
        },
      };
    },
    gauge: (name, help, read, labels = []) => addRead({ name, help, type: 'gauge', labels }, read),
    total: (name, help, read) => addRead({ name, help, type: 'counter', labels: [] }, read),
    families: () => [...families.values()],
    async text() {
      // At the same time, so that those that share a query do so.
      return (await Promise.all([...families.values()].map(familyText))).join('');
    },
  };
}

type Series = { labels: Labels; counts: number[]; sum: number };

async function familyText({ name, help, type, lines }: Family): Promise<string> {
  // One that cannot be read must not hide the other metrics.
  const all = await Promise.resolve()
    .then(lines)
    .catch(() => []);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...all, ''].join('\n');
}

function valueLines(name: string, value: Values<string>): string[] {
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
