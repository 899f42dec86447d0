/**
 * JavaScript, by Node: the one that runs this service, so no package is needed.
 *
 * A source is a module where it has `import`, `export` or `await` at the top level, else CommonJS:
 * Node decides by the syntax, because the box has no package.json. A file's ending can say so too, and
 * a submission has none: `fromFile` puts it into the text.
 *
 * The box sees the folder of Node's executable at BOX_FOLDER, so neither the path of this
 * installation nor anything else of it shows.
 */
import { basename, dirname } from 'node:path';
import type { RuntimeNeeds } from '../domain/limits.ts';
import { BASE_ENVIRONMENT, WORK_FOLDER } from './shared/box.ts';
import type { Language, Probed } from './shared/language.ts';
import { ask, isInSystem, mountsFor } from './shared/probing.ts';

const SOURCE = 'main.js';
const BOX_FOLDER = '/opt/node';
/** From here on syntax decides what a .js file is. */
const OLDEST = 22;

const MiB = 1024 * 1024;

/**
 * V8 and libuv start about ten threads of their own, and the collector's share of memory comes on
 * top of the heap; Node opens a score of files before the program begins.
 */
const NEEDS: RuntimeNeeds = {
  wall_factor: 1,
  more_processes: 16,
  more_files: 32,
  least_memory_bytes: 96 * MiB,
  least_processes: 16,
};

/** What Node takes beside the heap of the program: its executable's data, code, stacks, young generation. */
const OWN_BYTES = 48 * MiB;
const OWN_SHARE = 1 / 8;

export const language: Language = {
  name: 'javascript',
  title: 'JavaScript',
  aliases: ['js'],
  endings: ['js', 'mjs', 'cjs'],
  fromFile: (code, ending) => (ending === 'mjs' ? `${code}\nexport {};\n` : code),
  packages: [],
  switches: [],
  hello: 'console.log(6 * 7)',
  source: SOURCE,
  needs: NEEDS,
  out_of_memory_words: [
    'JavaScript heap out of memory',
    'Reached heap limit Allocation failed',
    'Array buffer allocation failed',
    'ERR_WORKER_OUT_OF_MEMORY',
    'FATAL ERROR: v8::ToLocalChecked Empty MaybeLocal',
  ],
  candidates: () => [process.execPath],
  probe,
};

async function probe(executable: string): Promise<Probed> {
  const version = (await ask(executable, ['--version'])).trim();
  const major = Number(/^v(\d+)\./.exec(version)?.[1]);
  if (!(major >= OLDEST)) return { why: `Node ${version} is older than ${OLDEST}` };
  const folder = dirname(executable);
  const inSystem = isInSystem(folder);
  const inBox = inSystem ? executable : `${BOX_FOLDER}/${basename(executable)}`;
  const system = await mountsFor([]);
  return {
    found: {
      version: `Node ${version}`,
      at: executable,
      mounts: inSystem ? system : [...system, { from: folder, to: BOX_FOLDER }],
      run: ({ args, limits }) => ({
        argv: [inBox, ...flags(limits.memory_bytes), `${WORK_FOLDER}/${SOURCE}`, ...args],
        env: BASE_ENVIRONMENT,
      }),
      compiler: null,
    },
  };
}

/** V8 would size its heap by the machine's memory, and meet the box's limit as a SIGKILL without words. */
function flags(memory_bytes: number): string[] {
  const heap_mib = Math.floor((memory_bytes * (1 - OWN_SHARE) - OWN_BYTES) / MiB);
  return [`--max-old-space-size=${heap_mib}`];
}
