/**
 * What does the launcher cost? Runs the same four programs bare, in the launcher's boxes, and in bubblewrap's where it
 * is installed: one and two at a time, hot and after 25 ms idle, with the CPU time of all processes. And what does the
 * warm interpreter save? (The speed-ups of the compilers are in service.bench.ts.) Every output is checked. The ways
 * take turns, so that all of them see the same machine.
 */
import { execFile, execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { LanguageName } from '../src/domain/limits.ts';
import { createBare, LANES } from './support/bare.ts';
import { openBox } from './support/box.ts';
import { type Program, programs, source } from './support/programs.ts';
import { against, type Measure, publish } from './support/report.ts';
import { median, quantile } from './support/stats.ts';

const exec = promisify(execFile);
const ROUNDS = 3;
const IDLE_MS = 25;

type Sample = { ms: number[]; all_s: number; cpu_ms: number };
type Way = (lanes: number, count: number, idle_ms: number) => Promise<Sample>;
type Subject = {
  name: string;
  profile: LanguageName;
  /** the runs of one hot round */
  count: number;
  expected: string;
  argv: string[];
};

const folder = mkdtempSync(join(tmpdir(), 'runledger-bench-'));
const tool = join(folder, 'bare');
execFileSync('cc', ['-O2', '-o', tool, join(import.meta.dirname, 'support/bare.c')]);
const box = await openBox();
const floor = createBare();
let number = 0;

/** Compiles the programs once, with the bare compilers: every way runs the same files. */
function prepare(): Subject[] {
  const at = (name: string) => join(import.meta.dirname, 'programs', name);
  copyFileSync(at('hello.py'), join(folder, 'main.py'));
  execFileSync('g++', ['-O2', '-std=gnu++17', '-o', join(folder, 'main'), at('hello.cpp')]);
  execFileSync('javac', ['-d', folder, at('Hello.java')]);
  execFileSync('jar', [
    '--create',
    '--no-manifest',
    '--file',
    join(folder, 'program.jar'),
    '-C',
    folder,
    'Hello.class',
  ]);
  box.store(folder, ['main', 'program.jar', 'main.py']);
  const java = [join(box.java_home, 'bin/java'), '-XX:+UseG1GC', '-XX:-UsePerfData', '-cp'];
  return [
    { name: '/bin/true', profile: 'java', count: 400, expected: '', argv: ['/bin/true'] },
    {
      name: 'Python',
      profile: 'python',
      count: 100,
      expected: 'hello\n',
      argv: ['/usr/bin/python3', '-I', '/load/main.py'],
    },
    {
      name: 'C++, compiled',
      profile: 'cpp',
      count: 300,
      expected: 'hello\n',
      argv: ['/load/main'],
    },
    {
      name: 'Java, compiled',
      profile: 'java',
      count: 40,
      expected: 'hello\n',
      argv: [...java, '/load/program.jar', 'Hello'],
    },
  ];
}

async function compare(subject: Subject): Promise<Measure[]> {
  const here = subject.argv.map((word) => word.replace('/load/', `${folder}/`));
  const ways: [string, Way][] = [
    ['bare', driven(here, subject.expected)],
    ['launcher', boxed(subject)],
  ];
  if (existsSync('/usr/bin/bwrap'))
    ways.push(['bubblewrap', driven([...bubblewrap(), ...subject.argv], subject.expected)]);
  const found = new Map<string, Figures>();
  for (const [name, way] of ways) await way(1, 10, 0).then(() => found.set(name, new Figures()));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, way] of ways) await found.get(name)!.add(way, subject.count);
  }
  const bare = found.get('bare')!;
  return [...found].flatMap(([name, figures]) =>
    name === 'bare'
      ? []
      : figures.over(
          bare,
          `${subject.name}, ${name}`,
          subject.name === '/bin/true' && name === 'launcher',
        ),
  );
}

class Figures {
  readonly hot: Sample[] = [];
  readonly two: Sample[] = [];
  readonly idle: Sample[] = [];

  async add(way: Way, count: number): Promise<void> {
    this.hot.push(await way(1, count, 0));
    this.two.push(await way(LANES, count * LANES, 0));
    this.idle.push(await way(1, Math.ceil(count / 4), IDLE_MS));
  }

  over(bare: Figures, name: string, strict: boolean): Measure[] {
    const ms = (samples: Sample[], q: number) =>
      quantile(
        samples.flatMap((sample) => sample.ms),
        q,
      );
    const cpu = (samples: Sample[]) => median(samples.map((sample) => sample.cpu_ms));
    const rate = (samples: Sample[]) =>
      median(samples.map((sample) => sample.ms.length / sample.all_s));
    const added = (of: (figures: Figures) => number) => of(this) - of(bare);
    return [
      against(`${name}: p50`, 'ms', ms(this.hot, 0.5), ms(bare.hot, 0.5)),
      against(`${name}: p99`, 'ms', ms(this.hot, 0.99), ms(bare.hot, 0.99)),
      against(
        `${name}: p50 after ${IDLE_MS} ms idle`,
        'ms',
        ms(this.idle, 0.5),
        ms(bare.idle, 0.5),
        { was: `${name}: p50 after ${IDLE_MS} ms of idleness` },
      ),
      against(`${name}: CPU per run`, 'ms', cpu(this.hot), cpu(bare.hot), {
        was: `${name}: CPU a run`,
      }),
      against(`${name}: 1 at a time`, 'runs/s', rate(this.hot), rate(bare.hot)),
      against(`${name}: ${LANES} at a time`, 'runs/s', rate(this.two), rate(bare.two)),
      ...(strict
        ? [
            {
              name: `${name}: added to p50, hot`,
              unit: 'ms',
              value: added((f) => ms(f.hot, 0.5)),
              at_most: 1.5,
            },
            {
              name: `${name}: added to p50, idle`,
              unit: 'ms',
              value: added((f) => ms(f.idle, 0.5)),
              at_most: 2,
            },
            {
              name: `${name}: added CPU`,
              unit: 'ms',
              value: added((f) => cpu(f.hot)),
              at_most: 1.3,
            },
            {
              name: `${name}: ${LANES} at a time, absolute`,
              unit: 'runs/s',
              value: rate(this.two),
              at_least: 900,
            },
          ]
        : []),
    ];
  }
}

/** Runs commands with the small C program that only spawns them; counts the CPU time of all its children. */
function driven(argv: string[], expected: string): Way {
  return async (lanes, count, idle_ms) => {
    const words = [
      '-c',
      'TIMEFORMAT="%3U %3S"; time "$@"',
      'bash',
      tool,
      String(lanes),
      String(count),
      expected,
      ...argv,
    ];
    const env = { ...process.env, ...(idle_ms && { BARE_IDLE_MS: String(idle_ms) }) };
    const { stdout, stderr } = await exec('bash', words, { cwd: folder, env });
    const ms = stdout.trim().split('\n').map(Number);
    const all_s = ms.pop()!;
    const [user = 0, system = 0] = stderr.trim().split('\n').at(-1)!.split(' ').map(Number);
    return { ms, all_s, cpu_ms: ((user + system) * 1000) / count };
  };
}

function boxed({ profile, argv, expected }: Subject): Way {
  return async (lanes, count, idle_ms) => {
    const ms: number[] = [];
    const cpu = box.cpu_ms();
    const began = performance.now();
    const lane = async (share: number) => {
      for (let n = 0; n < share; n++) {
        if (idle_ms) await new Promise((resolve) => setTimeout(resolve, idle_ms));
        const start = performance.now();
        const output = await box.run(profile, argv);
        ms.push(performance.now() - start);
        if (output !== expected)
          throw new Error(`${argv.join(' ')} printed ${JSON.stringify(output)}`);
      }
    };
    await Promise.all(Array.from({ length: lanes }, () => lane(count / lanes)));
    const all_s = (performance.now() - began) / 1000;
    return { ms, all_s, cpu_ms: (box.cpu_ms() - cpu) / count };
  };
}

/** Bubblewrap with its usual isolation. It has no control groups. */
function bubblewrap(): string[] {
  const links = ['bin', 'lib', 'lib64'].flatMap((name) => ['--symlink', `usr/${name}`, `/${name}`]);
  const conf = existsSync('/etc/java-17-openjdk')
    ? ['--ro-bind', '/etc/java-17-openjdk', '/etc/java-17-openjdk']
    : [];
  return [
    ...['/usr/bin/bwrap', '--unshare-all', '--die-with-parent', '--new-session', '--clearenv'],
    ...['--ro-bind', '/usr', '/usr', ...links, ...conf, '--proc', '/proc', '--dev', '/dev'],
    ...['--tmpfs', '/tmp', '--tmpfs', '/box', '--chdir', '/box', '--ro-bind', folder, '/load'],
  ];
}

/** Source in, outcome out, from a warm interpreter. Every source is new to it. */
async function warm(program: Program): Promise<Measure[]> {
  const count = 100;
  const one: number[] = [];
  const bare: number[] = [];
  const rates: number[] = [];
  const floors: number[] = [];
  const execute = async () => {
    const start = performance.now();
    const output = await box.execute(program.language, source(program, number++));
    if (output !== program.expected)
      throw new Error(`${program.name} printed ${JSON.stringify(output)}`);
    return performance.now() - start;
  };
  for (let n = 0; n < 20; n++) await execute();
  for (let round = 0; round < ROUNDS; round++) {
    bare.push(...(await floor.run(program, 1, count)).ms);
    for (let n = 0; n < count; n++) one.push(await execute());
    floors.push((count * LANES) / (await floor.run(program, LANES, count * LANES)).all_s);
    const began = performance.now();
    // More at once than there are slots, as with a queue.
    const lanes = Array.from({ length: LANES * 2 }, async () => {
      for (let n = 0; n < count / 2; n++) await execute();
    });
    await Promise.all(lanes);
    rates.push((count * LANES * 1000) / (performance.now() - began));
  }
  return [
    against(`${program.name}, warm: p50`, 'ms', median(one), median(bare)),
    against(`${program.name}, warm: ${LANES} at a time`, 'runs/s', median(rates), median(floors)),
  ];
}

try {
  const measures: Measure[] = [];
  for (const subject of prepare()) measures.push(...(await compare(subject)));
  const python = programs.find(({ language }) => language === 'python')!;
  measures.push(...(await warm(python)));
  publish('executor', 'what does a box cost over the bare command?', measures);
} finally {
  floor.remove();
  await box.close();
  rmSync(folder, { recursive: true, force: true });
}
