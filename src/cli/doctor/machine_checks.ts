import { readFile } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { resolve } from 'node:path';
import { doubtsOf, soundConfig } from '../../config.ts';
import { bytesText } from '../../domain/units_text.ts';
import { freeMemory, inMiB, isShort } from '../../executor/free_memory.ts';
import { diskFinding } from './disk_room.ts';
import { type Check, fail, ok, warn } from './finding.ts';

const OLDEST_NODE = '24.12';

export const node: Check = {
  name: 'node',
  look: async () => {
    const found = `${process.version} at ${process.execPath}`;
    const order = process.versions.node.localeCompare(OLDEST_NODE, undefined, { numeric: true });
    if (order >= 0) return [ok('node', found)];
    return [
      fail(
        'node',
        found,
        `run \`make install\`: it brings a newer Node, and \`./runledger\` uses it`,
      ),
    ];
  },
};

export const environment: Check = {
  name: 'environment',
  look: async ({ config }) => {
    const remedy = 'correct it, and run doctor again: the other lines are as if it was not set';
    const mistakes = soundConfig().problems.map((found) => fail('environment', found, remedy));
    const doubts = doubtsOf(config).map(({ found, remedy }) => warn('environment', found, remedy));
    const findings = [...mistakes, ...doubts];
    return findings.length > 0
      ? findings
      : [ok('environment', 'every variable is known and valid')];
  },
};

const resources: Check = {
  name: 'machine',
  look: async () => [
    ok('machine', `${availableParallelism()} cores, ${bytesText(totalmem())} of memory`),
  ],
};

const memory: Check = {
  name: 'memory',
  look: async () => {
    const free = freeMemory();
    if (free === null) return [ok('memory', 'this kernel does not say how much is available')];
    const found = `${inMiB(free.available_bytes)} available`;
    if (!isShort(free)) return [ok('memory', found)];
    return [
      warn(
        'memory',
        `${found}: a worker starts no program below ${inMiB(free.least_bytes)}`,
        'end something else on this machine, or set fewer RUNLEDGER_SLOTS',
      ),
    ];
  },
};

const disk: Check = {
  name: 'disk',
  look: async (context) => {
    const remedy = 'free some, or set RUNLEDGER_STATE_DIR to a folder on another disk';
    return [await diskFinding('disk', resolve(context.config.state_dir), remedy)];
  },
};

/** With 2, what a program asks for and never touches counts for the whole machine, and for no control group. */
const overcommit: Check = {
  name: 'overcommit',
  look: async () => {
    const mode = await readFile('/proc/sys/vm/overcommit_memory', 'utf8').catch(() => '');
    if (mode.trim() !== '2') return [];
    return [
      warn(
        'overcommit',
        'vm.overcommit_memory is 2: one program can ask for all memory that the machine promises',
        'set it to 0 on machines with workers, and keep PostgreSQL on another one',
      ),
    ];
  },
};

export const machineChecks: readonly Check[] = [
  node,
  environment,
  resources,
  memory,
  overcommit,
  disk,
];
