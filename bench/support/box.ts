/** A sandbox and an executor like a worker's, and the CPU time of all their processes. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_POLICY, type LanguageName, limitsFor } from '../../src/domain/limits.ts';
import { openCompileCache } from '../../src/executor/compile_cache.ts';
import { createExecutor } from '../../src/executor/executor.ts';
import { profilesFor } from '../../src/executor/profiles.ts';
import { openSandbox } from '../../src/executor/sandbox.ts';
import { BASE_ENVIRONMENT } from '../../src/languages/common/box.ts';
import { BY_NAME, ON_BY_DEFAULT } from '../../src/languages/common/registry.ts';
import { findToolchains } from '../../src/languages/common/toolchains.ts';
import { LANES } from './bare.ts';

const BUILD = join(import.meta.dirname, '../../build');
const KEY = 'bench';

export async function openBox() {
  const folder = mkdtempSync(join(tmpdir(), 'runledger-bench-store-'));
  const { toolchains } = await findToolchains({
    languages: ON_BY_DEFAULT.map((name) => BY_NAME.get(name)!),
  });
  const java = toolchains.get('java')!;
  const cache = await openCompileCache({ folder, max_bytes: 2 ** 30, max_entries: 10_000 });
  const sandbox = await openSandbox({
    launcher: join(BUILD, 'launcher'),
    zygote: join(BUILD, 'zygote.so'),
    slots: LANES,
    stream_slots: 3,
    profiles: await profilesFor(toolchains),
    store_dir: cache.artefacts_folder,
  });
  const log = (message: string, error: Error) => console.error(`${message}: ${error.message}`);
  const executor = await createExecutor({
    sandbox,
    toolchains,
    cache,
    policy: DEFAULT_POLICY,
    log,
  });
  await executor.prepared();
  const limits = limitsFor(java.language.needs);
  const signal = new AbortController().signal;
  return {
    java_home: java.at,

    /** Copies files to where boxes see them, at /load. */
    store(from: string, names: string[]): void {
      const at = join(cache.artefacts_folder, KEY);
      mkdirSync(at);
      for (const name of names) copyFileSync(join(from, name), join(at, name));
    },

    /** In the box of a language: it has what programs of that language need, and nothing else. */
    async run(profile: LanguageName, argv: string[]): Promise<string> {
      const report = await sandbox.run({
        argv,
        env: BASE_ENVIRONMENT,
        files: [],
        stdin: new Uint8Array(),
        limits,
        profile,
        load: [{ key: KEY, at: '/load' }],
      });
      return Buffer.from(report.stdout).toString();
    },

    /** Throws if it is not AC. */
    async execute(
      language: LanguageName,
      code: string,
      { stdin = '', expected = null }: { stdin?: string; expected?: string | null } = {},
    ): Promise<string> {
      const outcome = await executor.execute(
        {
          ...{
            submission_id: 'bench',
            attempt: 1,
            account_id: 'bench',
            language,
            args: [],
            limits: {},
          },
          ...{ code: Buffer.from(code), stdin: Buffer.from(stdin) },
          ...{
            expected_output: expected === null ? null : Buffer.from(expected),
            compare: 'lenient',
            judging: null,
          },
        },
        signal,
      );
      const { verdict, stdout, stderr } = outcome;
      if (verdict !== 'AC') throw new Error(`${language}: ${verdict}: ${Buffer.from(stderr)}`);
      return Buffer.from(stdout).toString();
    },

    /** The CPU time of the launcher, its slots and everything that ran in them, and of this process. */
    cpu_ms(): number {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000 + settledCpuOfTree(sandbox.isolation.pid);
    },

    async close(): Promise<void> {
      await executor.close();
      await sandbox.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const TICK_MS = 1000 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** A process that ends during the reading adds its time to its parent's, which may have been read already: read again. */
function settledCpuOfTree(pid: number): number {
  for (;;) {
    try {
      return cpuOfTree(pid);
    } catch (error) {
      if (!['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
      // Throws if the launcher itself has ended.
      process.kill(pid, 0);
    }
  }
}

/** The kernel adds a child's time to its parent's when the parent waits for it. */
function cpuOfTree(pid: number): number {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean),
  );
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // After the name, which may contain anything: utime, stime, cutime, cstime.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const own = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS;
  return children.reduce((sum, child) => sum + cpuOfTree(Number(child)), own);
}
