import { DAY } from '../../config/variable.ts';
import { CHOICES, LANGUAGE_FIGURES } from '../capacity_figures.ts';
import { type Capacity, capacityOf, type Demand, YEAR } from '../capacity_model.ts';
import { type Command, type Context, JSON_OPTION, optionText, UsageError } from '../command.ts';
import { columns } from '../table.ts';

const LANGUAGES = Object.keys(LANGUAGE_FIGURES);
const GB = 1e9;

export const command: Command = {
  summary: 'say how many cores, machines, connections and bytes a rate of submissions needs',
  options: {
    'submissions-per-second': {
      value: 'N',
      required: true,
      help: 'the average over the busiest minutes',
    },
    'submissions-per-day': { value: 'N', help: 'for the disk; without it, that rate all day' },
    languages: {
      value: 'LIST',
      default: 'python,cpp,java',
      help: `of ${LANGUAGES.join(', ')}; with shares: python=3,cpp=1`,
    },
    'cpu-seconds': {
      value: 'N',
      default: '0.2',
      help: 'CPU time of the program, over all tests of a submission',
    },
    'wall-seconds': { value: 'N', help: 'its elapsed time; without it, the CPU time' },
    'payload-bytes': {
      value: 'N',
      default: '2000',
      help: 'what a user sends and the program prints, for one submission',
    },
    'machine-cores': { value: 'N', default: '8', help: 'cores of a worker machine' },
    'disk-gb': {
      value: 'N',
      default: '1000',
      help: 'the disk of the database (of all installations together), in 10^9 bytes',
    },
    json: JSON_OPTION,
  },
  example: 'capacity --submissions-per-second 500 --languages python=3,cpp=1 --cpu-seconds 0.5',
  async run(context) {
    const demand = demandOf(context);
    const capacity = capacityOf(demand);
    if (context.json) context.answer({ demand, ...capacity });
    else context.answer(textOf(demand, capacity));
    return 0;
  },
};

function demandOf(context: Context): Demand {
  const { database_pool, keep_bytes_ms, keep_events_ms } = context.config;
  const per_second = positive(context, 'submissions-per-second', 1e6);
  const cpu_seconds = amount(context, 'cpu-seconds', 86_400);
  const given = (name: string) => context.options[name] !== undefined;
  const days = (ms: number | null) => (ms === null ? null : ms / DAY);
  const per_day = given('submissions-per-day')
    ? positive(context, 'submissions-per-day', 1e11)
    : per_second * (DAY / 1000);
  if (per_day > per_second * (DAY / 1000))
    throw new UsageError(
      '--submissions-per-day is more than --submissions-per-second all day: raise the second, or lower the first',
    );
  return {
    per_second,
    per_day,
    languages: languagesOf(context),
    cpu_seconds,
    wall_seconds: given('wall-seconds') ? amount(context, 'wall-seconds', 86_400) : cpu_seconds,
    payload_bytes: amount(context, 'payload-bytes', 1e9),
    machine_cores: wholePositive(context, 'machine-cores', 1024),
    disk_bytes: positive(context, 'disk-gb', 1e6) * GB,
    database_pool,
    keep_bytes_days: days(keep_bytes_ms),
    keep_events_days: days(keep_events_ms),
  };
}

/** A number from 0 to `most`, with up to six digits behind the point. */
function amount(context: Context, name: string, most: number): number {
  const word = optionText(context, name);
  if (/^\d{1,12}(\.\d{1,6})?$/.test(word) && Number(word) <= most) return Number(word);
  throw new UsageError(`--${name} must be a number from 0 to ${most}, such as 0.2 or 500`);
}

function positive(context: Context, name: string, most: number): number {
  const number = amount(context, name, most);
  if (number > 0) return number;
  throw new UsageError(`--${name} must be more than 0`);
}

function wholePositive(context: Context, name: string, most: number): number {
  const number = positive(context, name, most);
  if (Number.isInteger(number)) return number;
  throw new UsageError(`--${name} must be a whole number from 1 to ${most}`);
}

function languagesOf(context: Context): Record<string, number> {
  const shares: Record<string, number> = {};
  for (const part of optionText(context, 'languages').split(',')) {
    const [, name = '', share = '1'] = /^([a-z]+)(?:=(\d{1,6}(?:\.\d{1,6})?))?$/.exec(part) ?? [];
    if (!Object.hasOwn(LANGUAGE_FIGURES, name))
      throw new UsageError(
        `--languages: not a language with a measured figure: ${part}; name some of ${LANGUAGES.join(', ')}`,
      );
    if (Object.hasOwn(shares, name)) throw new UsageError(`--languages names ${name} twice`);
    if (Number(share) === 0)
      throw new UsageError(`--languages: the share of ${name} is 0: leave the language out`);
    shares[name] = Number(share);
  }
  return shares;
}

function textOf(demand: Demand, capacity: Capacity): string {
  const { database, web, workers, disk, log, installations } = capacity;
  const rows = [
    ['database', `${database.cores} cores`, `${number(database.cores_busy)} busy on average`],
    ['', `max_connections ${database.max_connections}`, 'or more'],
    [
      'web',
      `${web.processes} processes, ${web.cores} cores`,
      `${number(web.cores_busy)} busy on average`,
    ],
    [
      'workers',
      `${workers.machines} machines of ${workers.cores_of_each} cores`,
      `${number(workers.cores_busy)} cores and ${number(workers.slots_busy)} slots busy on average; ${workers.spare_machines} to spare`,
    ],
    [
      'disk a day',
      `${inGb(disk.data_bytes_per_day)} of data`,
      `and ${inGb(disk.wal_bytes_per_day)} of WAL: what an archive of the WAL grows by`,
    ],
    [
      'log a day',
      `${number(log.events_per_day / 1e6)} million events`,
      `to verify those of ${log.kept_days} days takes one core ${duration(log.verify_core_seconds)}`,
    ],
    [
      'installations',
      `${installations.needed}`,
      `one takes up to ${number(installations.submissions_per_second)} submissions a second, as far as it was measured`,
    ],
  ];
  return [columns(rows), '', ...adviceOf(demand, capacity).map((line) => `- ${line}`)].join('\n');
}

function adviceOf(demand: Demand, capacity: Capacity): string[] {
  const { workers, disk, log, installations } = capacity;
  const by_slots = workers.machines > workers.machines_by_cores_alone;
  return [
    `Cores and slots are busy at most ${percent(CHOICES.busy)} of the time on average; a peak takes the rest.`,
    ...(by_slots
      ? [
          `Slots decide how many machines: programs hold them for longer than they compute. With more RUNLEDGER_SLOTS, ${workers.machines_by_cores_alone} machines have enough cores, but then quotas protect programs less from each other.`,
        ]
      : []),
    retentionAdvice(demand, disk),
    log.replica_for_verify
      ? 'Verify the log on a replica, or as an exported file: on the primary it would take too long.'
      : 'The log can be verified on the primary. A replica is needed only to lose nothing with the machine of the database.',
    ...(installations.needed > 1
      ? [
          `Split by account over ${installations.needed} installations, each with a database, web and workers of its own: the numbers above are of all of them together. The limit is ${installations.limited_by === 'sealing' ? 'the one process that seals' : 'what one database was measured to take'}.`,
        ]
      : []),
    `Workers are the larger part as soon as programs compute: this is for programs that take ${number(demand.cpu_seconds)} s of CPU, so compare that with cpu_time in your records.`,
  ];
}

function retentionAdvice({ keep_bytes_days }: Demand, disk: Capacity['disk']): string {
  const { kept_bytes, full_after_days } = disk;
  const with_retention = 'With the retention that is set, the data';
  if (full_after_days === null) {
    const left = disk.bytes * CHOICES.disk - kept_bytes!;
    return `${with_retention} grows to ${inGb(kept_bytes!)}: it fits. Only the hashes of the tree grow for ever, by ${inGb(disk.for_ever_bytes_per_day * YEAR)} a year; ${inGb(left)} are left for them.`;
  }
  const grows =
    kept_bytes === null
      ? ''
      : `${with_retention} would grow to ${inGb(kept_bytes)}: more than fits. `;
  const full = `At this rate ${percent(CHOICES.disk)} of ${inGb(disk.bytes)} are full after ${number(full_after_days)} days.`;
  return `${grows}${full} ${growthText(keep_bytes_days, full_after_days)} ${remedyOf(keep_bytes_days, disk)}`;
}

function growthText(keep_bytes_days: number | null, full_after_days: number): string {
  if (keep_bytes_days === null) return 'Bytes and events both grow until then.';
  return keep_bytes_days < full_after_days
    ? `From day ${number(keep_bytes_days)} on only events grow: RUNLEDGER_KEEP_BYTES removes older bytes.`
    : 'RUNLEDGER_KEEP_BYTES removes nothing before that.';
}

function remedyOf(keep_bytes_days: number | null, disk: Capacity['disk']): string {
  if (disk.detach_after_days !== null)
    return `Set RUNLEDGER_KEEP_EVENTS to ${disk.detach_after_days}d or less, or detach months by then; the log has a partition for each month already.`;
  const fewer = `, or set RUNLEDGER_KEEP_BYTES${keep_bytes_days === null ? ', too' : ' to less'}`;
  return `That is less than two months, and months are detached as a whole: use a larger disk${disk.detach_with_fewer_bytes ? fewer : ''}.`;
}

const percent = (part: number) => `${Math.round(part * 100)} %`;
const inGb = (bytes: number) => `${number(bytes / GB)} GB`;

function duration(seconds: number): string {
  if (seconds < 90) return `${number(seconds)} s`;
  return seconds < 5400 ? `${number(seconds / 60)} min` : `${number(seconds / 3600)} h`;
}

/** Two digits at least, and all digits of a whole number. */
function number(value: number): string {
  if (value >= 10 || value === 0) return Math.round(value).toLocaleString('en');
  return value.toLocaleString('en', { maximumSignificantDigits: 2 });
}
