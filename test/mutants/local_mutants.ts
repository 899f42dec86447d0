/** Mutants of a service with a PostgreSQL of its own. */
import { inFile, type Mutant } from './mutant.ts';

const EMBEDDED = 'test/local/embedded.test.ts';

export const localMutants: readonly Mutant[] = [
  ...inFile(
    'src/local/embedded.ts',
    EMBEDDED,
    ['no log begins with keys that another may have', 'if (before.has_used_key)', 'if (false)'],
    ['a first start that was interrupted begins again', '{ for_new_data: is_new }', '{}'],
  ),
  ...inFile(
    'src/local/secrets.ts',
    EMBEDDED,
    [
      'the mark of other secrets says nothing of these',
      "!existsSync(beside(state_dir, secrets, 'new')) ||",
      '!(await readdir(state_dir)).some((name) => MARK.test(name)) ||',
    ],
    [
      'no mark stays once a log has begun',
      'if (MARK.test(name)) await rm(join(state_dir, name), { force: true });',
      '{}',
    ],
  ),
  ...inFile(
    'src/local/secrets.ts',
    'test/local/secrets.test.ts',
    ['one database claims a key', "(await readFile(claim, 'utf8')).trim() === database", 'true'],
    [
      'a key from elsewhere is not claimed',
      "if (existsSync(beside(state_dir, secrets, 'new'))) await createOnce",
      'await createOnce',
    ],
  ),
];
