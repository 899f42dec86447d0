// needs: c
/** The parser of requests, fuzzed under sanitizers with another seed each time. `make -C src/sandbox fuzz` runs more rounds. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';

const FOLDER = join(import.meta.dirname, '../../src/sandbox');

t.test('no request makes the parser read or write where it may not', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const { status, stdout, stderr } = spawnSync(
    'make',
    [
      '-C',
      FOLDER,
      'fuzz',
      `FUZZ_SEED=${seed}`,
      'FUZZ_ROUNDS=30000',
      `BUILD=${t.testdir({ sandbox: {} })}`,
    ],
    { encoding: 'utf8' },
  );
  t.equal(status, 0, `seed ${seed}: ${stdout}${stderr}`);
});
