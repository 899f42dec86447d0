/**
 * JavaScript, by Node: the one that runs this service, so no package is needed.
 *
 * A source is a module where it has `import`, `export` or `await` at the top level, else CommonJS:
 * Node decides by the syntax, because the box has no package.json. The ending of a file can decide it,
 * too, and a submission has no file name: `fromFile` writes into the text what `.mjs` says.
 *
 * The box sees Node's executable in BOX_FOLDER and a copy of PRELOAD, so it shows neither the path of this
 * installation nor anything else of it.
 */
import { basename, join } from 'node:path';
import type { RunLimits, RuntimeNeeds } from '../../domain/limits.ts';
import { BASE_ENVIRONMENT, WORK_FOLDER } from '../common/box.ts';
import type { Language, Mount, Probed } from '../common/language.ts';
import { isInSystem, programMounts } from '../common/mounts.ts';
import { ask } from '../common/probing.ts';

const SOURCE = 'main.js';
const BOX_FOLDER = '/opt/node';
const PRELOAD: Mount = {
  from: join(import.meta.dirname, 'blocking_output.cjs'),
  to: '/opt/blocking_output.cjs',
};
/** From this version on, syntax decides what a .js file is. */
const OLDEST = 22;

const MiB = 1024 * 1024;

/** Beyond the depth at which V8 ends a recursion; and V8 itself gets at least as much. */
const STACK_MARGIN_KIB = 256;

/**
 * V8 and libuv have about ten threads of their own, Node opens some twenty files before the program
 * begins, and without room beside the heap it cannot start. On a stack of 64 KiB every other start ended with SIGSEGV.
 */
const NEEDS: RuntimeNeeds = {
  wall_factor: 1,
  more_processes: 16,
  more_files: 32,
  least_memory_bytes: 96 * MiB,
  least_stack_bytes: 2 * STACK_MARGIN_KIB * 1024,
  least_processes: 16,
};

export const language: Language = {
  name: 'javascript',
  title: 'JavaScript',
  aliases: ['js'],
  endings: ['js', 'mjs', 'cjs'],
  // An empty export makes a module of any text, and adds no line in front of the text's own.
  fromFile: (code, ending) => (ending === 'mjs' ? `${code}\nexport {};\n` : code),
  packages: [],
  switches: [],
  hello: 'console.log(6 * 7)',
  source: SOURCE,
  needs: NEEDS,
  out_of_memory_words: [
    'JavaScript heap out of memory',
    'Reached heap limit Allocation failed',
    'RangeError: Array buffer allocation failed',
    'ERR_WORKER_OUT_OF_MEMORY',
  ],
  // A table grows into one of twice its size. When that no longer fits beside it, more than a third of the heap is the
  // table; and more than half was used when the table itself was made beside the one before.
  full_heap_bytes: (limits) => heapBytes(limits) / 2,
  candidates: () => [process.execPath],
  probe,
};

async function probe(executable: string): Promise<Probed> {
  const version = (await ask(executable, ['--version'])).trim();
  const major = Number(/^v(\d+)\./.exec(version)?.[1]);
  if (!(major >= OLDEST)) return { why: `Node ${version} is older than ${OLDEST}` };
  const inSystem = isInSystem(executable);
  const inBox = inSystem ? executable : `${BOX_FOLDER}/${basename(executable)}`;
  const system = await programMounts({ executables: [executable], objects: [] });
  const mounts = system.map((mount) =>
    mount.from === executable ? { ...mount, to: inBox } : mount,
  );
  return {
    found: {
      version: `Node ${version}`,
      at: executable,
      mounts: [...mounts, PRELOAD],
      // V8 reserves more addresses than degraded isolation allows a process.
      needs_box: true,
      run: ({ source, args, limits }) => ({
        argv: [
          inBox,
          `--max-old-space-size=${heapBytes(limits) / MiB}`,
          `--stack-size=${stackKib(limits)}`,
          '--require',
          PRELOAD.to,
          `${WORK_FOLDER}/${source}`,
          ...args,
        ],
        env: BASE_ENVIRONMENT,
      }),
      compiler: null,
    },
  };
}

/** What Node takes beside the old generation: the young one, code, stacks, buffers of its own. */
const OWN_BYTES = 48 * MiB;
const OWN_SHARE = 1 / 8;

/**
 * V8 ends a recursion that goes deeper with a RangeError, and so it must stop before the end of the stack, and before the
 * end of the memory.
 */
function stackKib(limits: RunLimits): number {
  const most = Math.min(limits.stack_bytes, heapBytes(limits) / 2);
  return Math.floor(most / 1024) - STACK_MARGIN_KIB;
}

/** In whole MiB. Left alone, V8 sizes its heap by the machine's memory, and the box ends it without a message. */
function heapBytes({ memory_bytes }: RunLimits): number {
  return Math.floor((memory_bytes * (1 - OWN_SHARE) - OWN_BYTES) / MiB) * MiB;
}
