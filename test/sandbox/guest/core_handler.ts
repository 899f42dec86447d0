/**
 * For a guest alone, since it changes a setting of the whole kernel: where core dumps are piped into a
 * program of the host's (as systemd-coredump is), a crash in a box must not start it. The kernel does
 * not ask RLIMIT_CORE then, but for one value. Exit 0: outside the handler was called, inside not.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { works } from '../case.ts';
import { openBench, requestFor } from '../suite.ts';

const HANDLER = '/tmp/core-handler';
const CALLED = '/tmp/core-handler-called';
const SEGFAULT_WAIT_MS = 3_000;

writeFileSync(HANDLER, `#!/bin/sh\ncat > /dev/null\necho called > ${CALLED}\n`);
chmodSync(HANDLER, 0o755);
writeFileSync('/proc/sys/kernel/core_pattern', `|${HANDLER} %p`);

const bench = await openBench();
const insideCalled = await calledBy(async () => {
  for (const program of ['segfault', 'dumps_core', 'core_limit_lowered'])
    await bench.single.run(requestFor(bench, works(program), 'endings', 'cpp').request);
});
const outsideCalled = await calledBy(async () => {
  try {
    execFileSync(join(bench.programs.cpp, 'hostile'), ['segfault'], { stdio: 'ignore' });
  } catch {}
});
await bench.close();
console.log(`handler called by a crash outside: ${outsideCalled}, in a box: ${insideCalled}`);
process.exitCode = outsideCalled && !insideCalled ? 0 : 1;

async function calledBy(crash: () => Promise<void>): Promise<boolean> {
  rmSync(CALLED, { force: true });
  await crash();
  for (let waited = 0; waited < SEGFAULT_WAIT_MS && !existsSync(CALLED); waited += 50)
    await sleep(50);
  return existsSync(CALLED);
}
