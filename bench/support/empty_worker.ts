/** A worker whose executions take no time, so that the queue alone is measured. Each execution outputs its begin. */
import { loadConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { startWorker } from '../../src/queue/worker.ts';

const stderr = Buffer.alloc(0);
const facts = { verdict: 'AC', status: 'completed', exit_code: 0, signal: null } as const;
const measured = { cpu_time_us: 1000, wall_time_us: 1000, memory_peak_bytes: 1 << 20 };
const none = {
  stderr,
  stdout_truncated: false,
  stderr_truncated: false,
  compile: null,
  limits: {},
  limit_exceeded: null,
  judged: null,
};

/** Messages its parent when it is ready, and ends with it. */
export async function startBenchWorker(run: (code: string) => Promise<void>): Promise<void> {
  const config = loadConfig();
  const worker = await startWorker({
    config,
    log: createLog({ level: 'warn', process: 'worker', to: 'stderr' }),
    executor: {
      toolchains: () => Object.fromEntries(config.languages.map((name) => [name, 'none'])),
      slots: config.slots ?? 24,
      isolation: { kind: 'none' },
      async execute({ code }) {
        const began_ms = performance.timeOrigin + performance.now();
        await run(Buffer.from(code).toString());
        return {
          ...facts,
          ...measured,
          ...none,
          stdout: Buffer.from(`${began_ms}`),
          evidence: {},
          judged: null,
        };
      },
      isReady: () => true,
      extendDeadline: () => {},
      close: async () => {},
    },
  });
  process.send?.('ready');
  const stop = async () => {
    await worker.stop();
    process.exit();
  };
  process.on('SIGTERM', stop);
  process.on('disconnect', stop);
}

if (import.meta.main) await startBenchWorker(async () => {});
