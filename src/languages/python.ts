/** Python, by CPython. Programs can be forked from a warm interpreter. */
import { BASE_ENVIRONMENT, WORK_FOLDER } from './common/box.ts';
import { type Language, NO_NEEDS, type Probed } from './common/language.ts';
import { isInSystem, programMounts, sharedObjectsIn, withoutLocal } from './common/mounts.ts';
import { ask } from './common/probing.ts';

const SOURCE = 'main.py';
const ZYGOTE = 'python_zygote';

/** As -I, but for the folder of the source, which is the first in sys.path. Imports leave no bytecode beside the files. */
const IMPORTING = ['-E', '-s', '-B'];

/** The last lines are the folders of its modules. */
const PROBE = `import sys, platform, sysconfig, site
print(*sys.version_info[:2], platform.python_version(), sys.base_prefix, sep="\\n")
print(sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *site.getsitepackages(), sep="\\n")`;
const MAJOR = 3;
const OLDEST_MINOR = 8;

export const language: Language = {
  name: 'python',
  title: 'Python',
  aliases: ['py'],
  endings: ['py', 'py3'],
  default_rank: 1,
  packages: [{ name: 'python3', command: 'python3' }],
  switches: [
    {
      name: ZYGOTE,
      variable: 'RUNLEDGER_PYTHON_ZYGOTE',
      reason: 'start Python programs by fork from a warm interpreter',
    },
  ],
  hello: 'print(6 * 7)',
  source: SOURCE,
  package_codes: ['python3'],
  old_version: { beginning: /^#!.*python2/, title: 'Python 2' },
  needs: NO_NEEDS,
  // The second is numpy's.
  out_of_memory_words: ['\nMemoryError', '_ArrayMemoryError: Unable to allocate'],
  candidates: ({ named }) => named('python3'),
  probe,
};

async function probe(executable: string): Promise<Probed> {
  const answer = await ask(executable, ['-I', '-c', PROBE]);
  const [major, minor, version = '', prefix = '', ...modules] = answer.trim().split('\n');
  if (Number(major) !== MAJOR || Number(minor) < OLDEST_MINOR) {
    return { why: `Python ${version} is not ${MAJOR}.${OLDEST_MINOR} or newer` };
  }
  const folders = isInSystem(executable) ? withoutLocal(modules, executable) : [prefix];
  return {
    found: {
      version: `Python ${version}`,
      at: executable,
      mounts: await programMounts({
        paths: folders,
        executables: [executable],
        objects: (await Promise.all(folders.map(sharedObjectsIn))).flat(),
      }),
      forks_if: ZYGOTE,
      run: ({ source, has_files, args }) => ({
        argv: [
          executable,
          ...(has_files ? IMPORTING : ['-I']),
          `${WORK_FOLDER}/${source}`,
          ...args,
        ],
        env: BASE_ENVIRONMENT,
      }),
      compiler: null,
    },
  };
}
