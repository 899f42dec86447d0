/** Python, by CPython; its programs may be forked from an interpreter that is warm. */
import { BASE_ENVIRONMENT, WORK_FOLDER } from './common/box.ts';
import { type Language, NO_NEEDS, type Probed } from './common/language.ts';
import { ask, mountsFor } from './common/probing.ts';

const SOURCE = 'main.py';
const ZYGOTE = 'python_zygote';

const PROBE =
  'import sys, platform; print(sys.version_info[0], sys.version_info[1], platform.python_version(), sys.base_prefix, sep="\\n")';
const MAJOR = 3;
const OLDEST_MINOR = 8;

export const language: Language = {
  name: 'python',
  title: 'Python',
  aliases: ['py'],
  endings: ['py'],
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
  needs: NO_NEEDS,
  out_of_memory_words: ['\nMemoryError'],
  candidates: ({ named }) => named('python3'),
  probe,
};

async function probe(executable: string): Promise<Probed> {
  const answer = await ask(executable, ['-I', '-c', PROBE]);
  const [major, minor, version = '', prefix = ''] = answer.trim().split('\n');
  if (Number(major) !== MAJOR || Number(minor) < OLDEST_MINOR) {
    return { why: `Python ${version} is not ${MAJOR}.${OLDEST_MINOR} or newer` };
  }
  return {
    found: {
      version: `Python ${version}`,
      at: executable,
      mounts: await mountsFor([prefix]),
      forks_if: ZYGOTE,
      run: ({ args }) => ({
        argv: [executable, '-I', `${WORK_FOLDER}/${SOURCE}`, ...args],
        env: BASE_ENVIRONMENT,
      }),
      compiler: null,
    },
  };
}
