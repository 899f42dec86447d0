/**
 * Runs the service of one tree for pair_revisions.ts. Each message names what to run, how many times, and how many at once;
 * the answer is the milliseconds that each run took, or with several at once the mean. Every answer is checked.
 */
import { join } from 'node:path';
import { type PairWeb, startWeb } from './pair_web.ts';
import { programs, source } from './programs.ts';
import type { Service } from './service.ts';

export type Runs = { what: ProgramName | Submission; count: number; at_once: number };

const HELLO_CPP = '#include <iostream>\nint main() { std::cout << 42 << std::endl; }\n';
const HELLO_JAVA =
  'public class Main { public static void main(String[] a) { System.out.println(42); } }\n';

/** A program of service.bench.ts. */
const larger = (name: string) => {
  const program = programs.find((each) => each.name === name)!;
  return {
    language: program.language,
    code: source({ ...program, unseen: false }, 0),
    is_new: program.unseen,
    expected: program.expected,
  };
};

const PROGRAMS = {
  Python: { language: 'python', code: 'print(42)\n' },
  'C++, compiled before': { language: 'cpp', code: HELLO_CPP },
  'C++, never seen': { language: 'cpp', code: HELLO_CPP, is_new: true },
  'Java, compiled before': { language: 'java', code: HELLO_JAVA },
  'Java, never seen': { language: 'java', code: HELLO_JAVA, is_new: true },
  'C++ of 70 lines': larger('C++ 70 dense lines, never seen'),
  'Java of 100 lines': larger('Java 100 lines, never seen'),
};
export type ProgramName = keyof typeof PROGRAMS;
/** A submission that is answered at once and executed by nobody, or one whose execution takes no time. */
export type Submission = 'submission' | 'empty execution';

let serial = 0;

async function run(service: Service, name: ProgramName): Promise<number> {
  const { language, code, is_new, expected } = {
    is_new: false,
    expected: '42\n',
    ...PROGRAMS[name],
  };
  const began = performance.now();
  const { stdout, verdict } = await service.run(
    language,
    is_new ? `${code}// ${process.pid} ${++serial}\n` : code,
  );
  if (stdout !== expected) throw new Error(`${name}: ${verdict} and output ${stdout}`);
  return performance.now() - began;
}

async function runAll({ count, at_once }: Runs, once: (client: number) => Promise<number>) {
  const ms: number[] = [];
  const began = performance.now();
  let left = count;
  const client = async (_: unknown, n: number) => {
    while (left-- > 0) ms.push(await once(n));
  };
  await Promise.all(Array.from({ length: at_once }, client));
  return at_once === 1 ? ms : [(performance.now() - began) / count];
}

const isProgram = (what: Runs['what']): what is ProgramName => Object.hasOwn(PROGRAMS, what);

async function submit(web: PairWeb, client: number): Promise<number> {
  const began = performance.now();
  await web.submit(client);
  return performance.now() - began;
}

if (import.meta.main) {
  const root = process.argv[2]!;
  const { startService } = (await import(
    join(root, 'bench/support/service.ts')
  )) as typeof import('./service.ts');
  const service = await startService();
  /** Each is started when it is first asked for: beside the programs it would only disturb. */
  const webs = new Map<Submission, PairWeb>();
  const webFor = async (what: Submission) => {
    const web = webs.get(what) ?? (await startWeb(root, { has_worker: what !== 'submission' }));
    webs.set(what, web);
    return web;
  };
  const stop = () => {
    const all = [service, ...webs.values()];
    void Promise.all(all.map((each) => each.stop())).finally(() => process.exit());
  };
  process.on('message', async (wanted: Runs | 'stop') => {
    if (wanted === 'stop') return stop();
    const { what } = wanted;
    if (isProgram(what)) return process.send!(await runAll(wanted, () => run(service, what)));
    const web = await webFor(what);
    process.send!(await runAll(wanted, (client) => submit(web, client)));
  });
  // Its parent is gone.
  process.on('disconnect', stop);
  process.send!('ready');
}
