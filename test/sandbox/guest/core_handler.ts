/**
 * Only for a guest, because it changes a setting of the whole kernel. Where the kernel pipes core dumps
 * into a program of the host (as with systemd-coredump), a crash in a box must not start that program.
 * The kernel then ignores RLIMIT_CORE, except for one value. Returns true if a crash outside a box called
 * the handler, and crashes in a box did not.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandOf, pids, within } from '../../executor/processes.ts';
import { works } from '../case.ts';
import { type Bench, requestFor } from '../suite.ts';

const HANDLER = '/tmp/core-handler';
const CALLERS = '/tmp/core-handler-callers';
/** Only a bound for a handler that never comes. */
const HANDLER_MS = 120_000;

const callers = () => readFileSync(CALLERS, 'utf8').split('\n').filter(Boolean);
const isHandling = () => pids().some((pid) => commandOf(pid).includes(HANDLER));

export async function noHandlerForBoxes(bench: Bench): Promise<boolean> {
  // %P is the pid of the crashed process, as the host numbers it.
  writeFileSync(HANDLER, `#!/bin/sh\necho $1 >> ${CALLERS}\ncat > /dev/null\n`);
  chmodSync(HANDLER, 0o755);
  writeFileSync(CALLERS, '');
  writeFileSync('/proc/sys/kernel/core_pattern', `|${HANDLER} %P`);
  for (const program of ['segfault', 'dumps_core', 'core_limit_lowered'])
    await bench.single.run(requestFor(bench, works(program), 'endings', 'cpp').request);
  const { pid } = spawnSync(join(bench.programs.cpp, 'hostile'), ['segfault'], { stdio: 'ignore' });

  // The kernel starts a handler before the crashed process is gone, so handlers of the box run by now.
  const outside = await within(HANDLER_MS, () => callers().includes(`${pid}`) && !isHandling());
  const inside = callers().some((caller) => caller !== `${pid}`);
  console.log(`handler called by a crash outside: ${outside}, in a box: ${inside}`);
  return outside && !inside;
}
