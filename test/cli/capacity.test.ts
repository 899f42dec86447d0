/** The command capacity: its arithmetic, its answers and its errors. Whether its figures are true is asked by bench/capacity.bench.ts. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import * as v from 'valibot';
import { CHOICES, FIGURES, LANGUAGE_FIGURES } from '../../src/cli/capacity_figures.ts';
import { COSTS, capacityOf, type Demand } from '../../src/cli/capacity_model.ts';
import { heldBy } from '../../src/config/connections.ts';
import { runledger } from './command_line.ts';

const number = v.pipe(v.number(), v.finite(), v.minValue(0));
const whole = v.pipe(number, v.integer());
const SHAPE = v.strictObject({
  demand: v.strictObject({
    per_second: number,
    per_day: number,
    languages: v.record(v.string(), number),
    cpu_seconds: number,
    wall_seconds: number,
    payload_bytes: number,
    machine_cores: whole,
    disk_bytes: number,
    database_pool: whole,
    keep_bytes_days: v.nullable(number),
    keep_events_days: v.nullable(number),
  }),
  database: v.strictObject({
    cores_busy: number,
    cores: whole,
    max_connections: whole,
  }),
  web: v.strictObject({ cores_busy: number, cores: whole, processes: whole }),
  workers: v.strictObject({
    cores_busy: number,
    slots_busy: number,
    slots: whole,
    cores_of_each: whole,
    machines: whole,
    spare_machines: whole,
    machines_by_cores_alone: whole,
  }),
  disk: v.strictObject({
    data_bytes_per_day: number,
    wal_bytes_per_day: number,
    for_ever_bytes_per_day: number,
    bytes: number,
    full_after_days: v.nullable(number),
    detach_after_days: v.nullable(whole),
    detach_with_fewer_bytes: v.boolean(),
    kept_bytes: v.nullable(number),
    kept_bytes_fit: v.boolean(),
  }),
  log: v.strictObject({
    events_per_day: number,
    kept_days: number,
    verify_core_seconds: number,
    replica_for_verify: v.boolean(),
  }),
  installations: v.strictObject({
    needed: whole,
    submissions_per_second: number,
    limited_by: v.picklist(['database', 'sealing']),
  }),
});

const RATE = ['capacity', '--submissions-per-second', '500'];

async function asked(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const { status, stdout, stderr } = await runledger([...RATE, ...args, '--json'], env);
  if (status !== 0 || stderr !== '') throw new Error(`${status}: ${stderr}`);
  return v.parse(SHAPE, JSON.parse(stdout));
}

t.test('the answer has this shape, and the arithmetic is that of the figures', async (t) => {
  const args = '--languages python=3,cpp --cpu-seconds 0.5 --wall-seconds 2 --payload-bytes 1000';
  const { demand, database, web, workers, disk, log, installations } = await asked([
    ...args.split(' '),
    ...'--machine-cores 16 --submissions-per-day 1000000 --disk-gb 500'.split(' '),
  ]);
  t.match(demand, {
    per_second: 500,
    per_day: 1e6,
    wall_seconds: 2,
    languages: { python: 3, cpp: 1 },
  });
  const of = (name: keyof typeof FIGURES) => FIGURES[name].value;
  const mixed = (name: 'box_ms' | 'wall_ms') =>
    0.75 * LANGUAGE_FIGURES['python']![name] + 0.25 * LANGUAGE_FIGURES['cpp']![name];
  const near = (found: number, wanted: number, what: string) =>
    t.ok(Math.abs(found / wanted - 1) < 1e-9, `${what}: ${found}, not ${wanted}`);
  const processes = web.processes + workers.machines;
  const further = workers.machines / installations.needed - 1;
  const database_ms = of('database_ms') + further * of('further_database_ms');
  near(
    database.cores_busy,
    (500 * database_ms + processes * of('idle_database_ms')) / 1000,
    'database',
  );
  near(web.cores_busy, (500 * of('web_ms') + web.processes * of('idle_web_ms')) / 1000, 'web');
  const run_ms = 500 + mixed('box_ms') + of('worker_ms') + further * of('further_worker_ms');
  const idle_ms = workers.machines * of('idle_worker_ms');
  near(workers.cores_busy, (500 * run_ms + idle_ms) / 1000, 'workers');
  near(workers.slots_busy, 500 * (2 + mixed('wall_ms') / 1000), 'slots');
  t.equal(installations.needed, Math.ceil(500 / of('passed')));
  t.equal(database.cores, Math.ceil(database.cores_busy / CHOICES.busy));
  t.equal(workers.slots, Math.ceil(workers.slots_busy / CHOICES.busy));
  t.equal(
    workers.machines,
    Math.ceil(workers.slots_busy / CHOICES.busy / 16) + installations.needed,
    'and a spare one for each installation',
  );
  t.ok(workers.machines_by_cores_alone < workers.machines, 'they wait more than they compute');
  t.equal(
    database.max_connections,
    web.processes * heldBy('web', 16) +
      workers.machines * heldBy('worker', 16) +
      installations.needed * (heldBy('command', 16) + CHOICES.other_connections),
  );
  near(disk.data_bytes_per_day, 1e6 * (of('data_bytes') + 1000 * of('payload_data')), 'data');
  near(disk.wal_bytes_per_day, 1e6 * (of('wal_bytes') + 1000 * of('payload_wal')), 'WAL');
  near(disk.for_ever_bytes_per_day, 1e6 * of('events') * of('tree_bytes'), 'for ever');
  near(disk.full_after_days!, (500e9 * CHOICES.disk) / disk.data_bytes_per_day, 'full after');
  t.equal(disk.detach_after_days, Math.floor(disk.full_after_days!) - 31);
  near(log.verify_core_seconds, (365 * 1e6 * of('events')) / of('verified'), 'verify');
});

const DEMAND: Demand = {
  per_second: 500,
  per_day: 4e6,
  languages: Object.fromEntries(Object.keys(LANGUAGE_FIGURES).map((name) => [name, 1])),
  cpu_seconds: 0.2,
  wall_seconds: 0.2,
  payload_bytes: 2000,
  machine_cores: 8,
  disk_bytes: 1e12,
  database_pool: 16,
  keep_bytes_days: 30,
  keep_events_days: 60,
};

t.test('twice the rate needs at least as much of everything', async (t) => {
  const needs = ({ database, web, workers, disk, log, installations }: ReturnType<typeof of>) => ({
    ...prefixed('database', database),
    ...prefixed('web', web),
    ...prefixed('workers', workers),
    data: disk.data_bytes_per_day,
    wal: disk.wal_bytes_per_day,
    kept: disk.kept_bytes!,
    for_ever: disk.for_ever_bytes_per_day,
    sooner: -(disk.full_after_days ?? Number.POSITIVE_INFINITY),
    events: log.events_per_day,
    verify: log.verify_core_seconds,
    installations: installations.needed,
  });
  const prefixed = (name: string, of: Record<string, number>) =>
    Object.fromEntries(Object.entries(of).map(([key, value]) => [`${name}.${key}`, value]));
  const of = (per_second: number) =>
    capacityOf({ ...DEMAND, per_second, per_day: per_second * 40_000 });
  let compared = 0;
  for (let rate = 0.1; rate < 50_000; rate *= 1.37) {
    const [one, two] = [needs(of(rate)), needs(of(2 * rate))] as Record<string, number>[];
    for (const [name, value] of Object.entries(one!)) {
      compared += 1;
      if (!(two![name]! >= value)) t.fail(`${name}: ${value} at ${rate}, ${two![name]} at twice`);
    }
  }
  t.ok(compared > 500);
  t.ok(of(50_000).installations.needed > of(100).installations.needed, 'it splits at some rate');
});

t.test('every figure counts: another one gives another answer', async (t) => {
  const before = JSON.stringify(capacityOf(DEMAND));
  const { languages, ...costs } = COSTS;
  for (const [name, cost] of Object.entries(costs)) {
    // The limit of one database is the smaller of two.
    const factor = name === 'seal_us' ? 100 : 0.5;
    t.not(JSON.stringify(capacityOf(DEMAND, { ...COSTS, [name]: cost * factor })), before, name);
  }
  for (const [name, one] of Object.entries(languages))
    for (const part of ['box_ms', 'wall_ms'] as const) {
      const changed = { ...languages, [name]: { ...one, [part]: one[part] * 2 } };
      const after = capacityOf(DEMAND, { ...COSTS, languages: changed });
      t.not(JSON.stringify(after), before, `${name}: ${part}`);
    }
});

t.test('the retention and the pool that are set count', async (t) => {
  const keeps = await asked(['--disk-gb', '100000'], {
    RUNLEDGER_KEEP_EVENTS: '60d',
    RUNLEDGER_KEEP_BYTES: '30d',
    RUNLEDGER_DATABASE_POOL: '7',
  });
  const { data_bytes_per_day, kept_bytes, kept_bytes_fit } = keeps.disk;
  const payloads = 500 * 86_400 * 2000 * FIGURES.payload_data.value;
  const wanted = (data_bytes_per_day - payloads) * 91 + payloads * 30;
  t.ok(Math.abs(kept_bytes! / wanted - 1) < 1e-9, `${kept_bytes}, not ${wanted}`);
  t.equal(kept_bytes_fit, true);
  t.equal(keeps.disk.full_after_days, null, 'what fits is never full');
  const all = await asked(['--disk-gb', '100000']);
  t.equal(all.disk.kept_bytes, null, 'nothing is removed where nothing is set');
  t.ok(all.database.max_connections > keeps.database.max_connections);
});

t.test('where bytes are removed, only events fill the rest of the disk', async (t) => {
  const events = DEMAND.per_day * FIGURES.data_bytes.value;
  const bytes = DEMAND.per_day * DEMAND.payload_bytes * FIGURES.payload_data.value;
  const room = DEMAND.disk_bytes * CHOICES.disk;
  const of = (keep_bytes_days: number | null, keep_events_days: number | null = null) =>
    capacityOf({ ...DEMAND, keep_bytes_days, keep_events_days }).disk;
  const days = (room - 5 * bytes) / events;
  t.equal(of(5).full_after_days, days);
  t.equal(of(5).detach_after_days, Math.floor(days) - 31);
  t.equal(of(5).kept_bytes, null, 'events are kept for ever');
  const both = room / (events + bytes);
  t.ok(both > 27 && both < 28, `${both} days`);
  t.equal(of(28).full_after_days, both, 'it is full before any bytes are removed');
  t.equal(of(null).full_after_days, both);
  t.equal(of(5, 400).full_after_days, days, 'what is kept does not fit');
  const most = of(5).detach_after_days!;
  t.equal(of(5, most).full_after_days, null, 'as many days as it says fit');
  t.equal(of(5, most + 1).kept_bytes_fit, false, 'and no more');
});

t.test('the line on the disk says what limits', async (t) => {
  const said = async (disk_gb: number, bytes?: string, events?: string, more: string[] = []) => {
    const rate = [...RATE, '--submissions-per-day', '4000000', '--disk-gb', String(disk_gb)];
    const kept = { RUNLEDGER_KEEP_BYTES: bytes, RUNLEDGER_KEEP_EVENTS: events };
    const { stdout } = await runledger([...rate, ...more], kept);
    return stdout.split('\n').find((line) => / (full|fits)\b/.test(line));
  };
  const full = '- At this rate 70 % of 1,000 GB are full after';
  const month =
    'That is less than two months, and months are detached as a whole: use a larger disk';
  const set = (days: number) =>
    `Set RUNLEDGER_KEEP_EVENTS to ${days}d or less, or detach months by then; the log has a partition for each month already.`;
  const only_events = 'From day 5 on only events grow: RUNLEDGER_KEEP_BYTES removes older bytes.';
  t.equal(await said(1000, '5d'), `${full} 43 days. ${only_events} ${set(11)}`);
  t.equal(
    await said(1000, '5d', '400d'),
    `- With the retention that is set, the data would grow to 6,603 GB: more than fits. ${full.slice(2)} 43 days. ${only_events} ${set(11)}`,
  );
  t.equal(
    await said(1000, '30d'),
    `${full} 27 days. RUNLEDGER_KEEP_BYTES removes nothing before that. ${month}, or set RUNLEDGER_KEEP_BYTES to less.`,
  );
  t.equal(
    await said(1000),
    `${full} 27 days. Bytes and events both grow until then. ${month}, or set RUNLEDGER_KEEP_BYTES, too.`,
  );
  const few = ['--payload-bytes', '0'];
  t.match(
    await said(500, undefined, undefined, few),
    /are full after 23 days\..* a larger disk\.$/,
  );
  t.equal(
    await said(1000, '5d', '10d'),
    '- With the retention that is set, the data grows to 675 GB: it fits. Only the hashes of the tree grow for ever, by 145 GB a year; 25 GB are left for them.',
  );
});

t.test('the line on slots comes only where slots decide how many machines', async (t) => {
  const said = async (args: string) => {
    const { stdout } = await runledger(['capacity', ...args.split(' ')]);
    return stdout.split('\n').find((line) => line.includes('RUNLEDGER_SLOTS'));
  };
  t.equal(
    await said('--submissions-per-second 400 --languages python --wall-seconds 0.25'),
    '- Slots decide how many machines: programs hold them for longer than they compute. With more RUNLEDGER_SLOTS, 19 machines have enough cores, but then quotas protect programs less from each other.',
  );
  t.equal(
    await said('--submissions-per-second 400 --languages cpp'),
    undefined,
    'cores decide: a compiler takes more of them',
  );
  const quick = '--submissions-per-second 5000 --languages python --cpu-seconds 0';
  t.equal(await said(quick), undefined, 'each installation needs a machine');
});

t.test('people get a table and what follows from it', async (t) => {
  const { status, stdout, stderr } = await runledger([...RATE, '--submissions-per-day', '400000']);
  t.match({ status, stderr }, { status: 0, stderr: '' });
  for (const row of ['database', 'web', 'workers', 'disk a day', 'log a day', 'installations'])
    t.match(stdout, new RegExp(`^${row} +\\d`, 'm'));
  t.match(stdout, /^ +max_connections \d+/m);
  t.match(stdout, /^- .*RUNLEDGER_KEEP_EVENTS to \d+d or less/m);
  const many = await runledger(['capacity', '--submissions-per-second', '20000']);
  t.match(many.stdout, /^- Split by account over \d+ installations/m);
  t.match(many.stdout, /^- Verify the log on a replica/m);
  const idle = await runledger([...RATE, '--wall-seconds', '5']);
  t.match(idle.stdout, /^- Slots decide how many machines/m);
  const few = await runledger(['capacity', '--submissions-per-second', '0.01']);
  t.match(few.stdout, /can be verified on the primary/);
});

t.test('a bad option is one line that says what is allowed, with status 2', async (t) => {
  const cases: [string[], RegExp][] = [
    [['capacity'], /--submissions-per-second is missing; see `.* capacity --help`/],
    [['capacity', '--submissions-per-second', 'many'], /must be a number from 0 to 1000000, such/],
    [['capacity', '--submissions-per-second', '0'], /--submissions-per-second must be more than 0/],
    [['capacity', '--submissions-per-second', '1e3'], /--submissions-per-second must be a number/],
    [[...RATE, '--submissions-per-day', '0'], /--submissions-per-day must be more than 0/],
    [[...RATE, '--submissions-per-day', '43200001'], /is more than --submissions-per-second all/],
    [[...RATE, '--languages', ''], /--languages is missing/],
    [[...RATE, '--languages', 'cobol'], /measured figure: cobol; name some of python, cpp, java/],
    [[...RATE, '--languages', 'constructor'], /measured figure: constructor/],
    [[...RATE, '--languages', 'cpp,cpp=2'], /--languages names cpp twice/],
    [[...RATE, '--languages', 'cpp=0'], /the share of cpp is 0: leave the language out/],
    [[...RATE, '--cpu-seconds', '0,2'], /--cpu-seconds must be a number from 0 to 86400/],
    [[...RATE, '--machine-cores', '2.5'], /--machine-cores must be a whole number from 1 to 1024/],
    [[...RATE, '--payload-bytes', '1GB'], /--payload-bytes must be a number/],
  ];
  for (const [args, expected] of cases) {
    const { status, stdout, stderr } = await runledger(args);
    t.match({ status, stdout }, { status: 2, stdout: '' }, args.join(' '));
    t.match(stderr, expected);
    t.match(stderr, /^[^\n]+\n$/, 'one line');
  }
});

t.test('CAPACITY.md has the figures, and who measures them', async (t) => {
  const document = readFileSync('CAPACITY.md', 'utf8');
  const figures = Object.values(FIGURES).map(
    ({ what, value, unit, measured_by }) =>
      `| ${what} | ${value.toLocaleString('en')} ${unit} | \`${measured_by}\` |`,
  );
  const languages = Object.entries(LANGUAGE_FIGURES).map(
    ([name, { box_ms, wall_ms }]) => `| ${name} | ${box_ms} ms | ${wall_ms} ms |`,
  );
  for (const rows of [figures, languages])
    t.ok(document.includes(rows.join('\n')), rows.join('\n'));
});
