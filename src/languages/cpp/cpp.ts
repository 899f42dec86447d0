/** C++, by g++, with precompiled headers. */
import { BASE_ENVIRONMENT, WORK_FOLDER } from '../common/box.ts';
import {
  ARTEFACT,
  type GnuLanguage,
  type GnuTools,
  MOLD_PACKAGE,
  MOLD_SWITCH,
  probeGnu,
} from '../common/gnu.ts';
import {
  type CompileStep,
  type Language,
  NO_NEEDS,
  type OpenCompiler,
  type Sources,
  type Workshop,
} from '../common/language.ts';
import { chooseHeaders, HEADER_SETS, type HeaderSet, openingIncludes } from './headers.ts';

const PRECOMPILED_HEADERS = 'precompiled_headers';
/** Below the work folder; the compiler looks here before the system's folders. */
const HEADERS_FOLDER = '.headers';

const gnu: GnuLanguage = {
  is: /\bg\+\+|GCC/i,
  command: 'g++',
  source: 'main.cpp',
  is_source: /\.(?:cpp|cc|cxx|c\+\+|cp|C|CPP)$/,
  flags: ['-O2', '-std=gnu++17'],
  libraries: [],
};

export const language = createCpp(HEADER_SETS);

/** A test may prepare fewer sets, because each takes some time. */
export function createCpp(header_sets: readonly HeaderSet[]): Language {
  return {
    name: 'cpp',
    title: 'C++',
    aliases: ['c++', 'cxx'],
    endings: ['cpp', 'cc', 'cxx', 'c++', 'C'],
    default_rank: 2,
    packages: [{ name: 'g++', command: 'g++' }, MOLD_PACKAGE],
    switches: [
      {
        name: PRECOMPILED_HEADERS,
        variable: 'RUNLEDGER_PRECOMPILED_HEADERS',
        reason: 'compile C++ with headers that were compiled ahead',
      },
      MOLD_SWITCH,
    ],
    hello: '#include <iostream>\nint main() { std::cout << 6 * 7 << std::endl; }',
    source: gnu.source,
    artefact: ARTEFACT,
    has_no_main_source: true,
    needs: NO_NEEDS,
    out_of_memory_words: ['std::bad_alloc'],
    candidates: ({ named }) => named('g++'),
    probe: (executable, isOn) =>
      probeGnu(gnu, executable, isOn, (tools, workshop) =>
        openCompiler(tools, workshop, workshop.isOn(PRECOMPILED_HEADERS) ? header_sets : []),
      ),
  };
}

function openCompiler(
  tools: GnuTools,
  workshop: Workshop,
  header_sets: readonly HeaderSet[],
): OpenCompiler {
  const keys = new Map<HeaderSet, string>();
  /** In their order of preference. */
  const ready = () => header_sets.filter((set) => keys.has(set));
  return {
    steps(sources) {
      const plain: CompileStep = {
        by: 'plain',
        ...tools.compile(sources),
        files: [],
        load: [],
      };
      const choice = chooseHeaders(sources.code, ready());
      if (choice === null) return [plain];
      const { set, first } = choice;
      if (mayChangeHeaders(sources)) return [plain];
      const header = `${HEADERS_FOLDER}/${first}`;
      const withHeaders: CompileStep = {
        by: `headers ${set.join(' ')}`,
        ...tools.compile(sources, `-I${HEADERS_FOLDER}`),
        load: [{ key: keys.get(set)!, at: `${WORK_FOLDER}/${header}.gch` }],
        // g++ reads this file when the header is included again: the precompiled header serves the first include only.
        files: [{ path: header, bytes: Buffer.from(`#include_next <${first}>\n`) }],
      };
      // Diagnostics show the path of an included header, so only those of a plain compile are right.
      return [withHeaders, plain];
    },
    async prepare() {
      // The smallest set first: most programs begin with one of those.
      for (const set of header_sets.toSorted((a, b) => a.length - b.length)) {
        await workshop.attempt(`the headers ${set.join(' ')}`, async () => {
          keys.set(set, await compileHeaders(tools, workshop, set));
        });
      }
    },
  };
}

/**
 * Whether the headers may read otherwise when they are compiled ahead. They may if a file of the program's own is included
 * before them, between them or by one of them. A file with the name of a source is safe unless the program itself includes it
 * there, because no header of the system includes such a file. A path with `../` is not safe: from our folder of headers it
 * leads to the work folder, and in a plain compile it does not.
 */
function mayChangeHeaders({ code, others }: Sources): boolean {
  const opening = openingIncludes(code);
  const isHarmless = ({ path }: { path: string }) =>
    gnu.is_source.test(path) && !opening.includes(path) && !path.startsWith(HEADERS_FOLDER);
  return !others.every(isHarmless) || Buffer.from(code).includes('../');
}

/** A set of headers in the form that g++ looks for: a folder `<header>.gch`, of which it tries every file. */
function compileHeaders(tools: GnuTools, workshop: Workshop, set: HeaderSet): Promise<string> {
  const source = set.map((header) => `#include <${header}>\n`).join('');
  return workshop.make({
    files: [{ path: 'set.hpp', bytes: Buffer.from(source) }],
    load: [],
    // All flags must be those of a program's compile, but for the linker's flag.
    argv: [tools.executable, ...tools.flags, '-x', 'c++-header', 'set.hpp', '-o', 'set'],
    env: BASE_ENVIRONMENT,
    leaves: 'set',
  });
}
