/**
 * Runs the service of one tree for pair_revisions.ts. Each message names a program, how many times to run it, and how many
 * at once; the answer is the milliseconds that each run took, or with several at once the mean. Every output is checked.
 */
import { join } from 'node:path';
import type { Service } from './service.ts';

export type Runs = { program: ProgramName; count: number; at_once: number };

const HELLO_CPP = '#include <iostream>\nint main() { std::cout << 42 << std::endl; }\n';
const HELLO_JAVA =
  'public class Main { public static void main(String[] a) { System.out.println(42); } }\n';
const PROGRAMS = {
  Python: { language: 'python', code: 'print(42)\n' },
  'C++, compiled before': { language: 'cpp', code: HELLO_CPP },
  'C++, never seen': { language: 'cpp', code: HELLO_CPP, is_new: true },
  'Java, compiled before': { language: 'java', code: HELLO_JAVA },
  'Java, never seen': { language: 'java', code: HELLO_JAVA, is_new: true },
};
export type ProgramName = keyof typeof PROGRAMS;

let serial = 0;

async function run(service: Service, name: ProgramName): Promise<number> {
  const { language, code, is_new } = { is_new: false, ...PROGRAMS[name] };
  const began = performance.now();
  const { stdout, verdict } = await service.run(
    language,
    is_new ? `${code}// ${process.pid} ${++serial}\n` : code,
  );
  if (stdout !== '42\n') throw new Error(`${name}: ${verdict} and output ${stdout}`);
  return performance.now() - began;
}

async function runAll(service: Service, { program, count, at_once }: Runs): Promise<number[]> {
  const ms: number[] = [];
  const began = performance.now();
  let left = count;
  const client = async () => {
    while (left-- > 0) ms.push(await run(service, program));
  };
  await Promise.all(Array.from({ length: at_once }, client));
  return at_once === 1 ? ms : [(performance.now() - began) / count];
}

if (import.meta.main) {
  const { startService } = (await import(
    join(process.argv[2]!, 'bench/support/service.ts')
  )) as typeof import('./service.ts');
  const service = await startService();
  process.on('message', async (wanted: Runs | 'stop') => {
    if (wanted !== 'stop') process.send!(await runAll(service, wanted));
    else await service.stop().finally(() => process.exit());
  });
  // Its parent is gone.
  process.on('disconnect', () => void service.stop().finally(() => process.exit()));
  process.send!('ready');
}
