/** The smallest and the largest values that an operator can set: every request runs, because the launcher takes them. */
import { spawnSync } from 'node:child_process';
import t from 'tap';
import { loadConfig } from '../../src/config.ts';
import {
  DEFAULT_POLICY,
  LIMIT_FIELDS,
  LIMITS,
  type LimitField,
  limitsFor,
  policyFrom,
  type RuntimeNeeds,
} from '../../src/domain/limits.ts';
import { LANGUAGES } from '../../src/languages/common/registry.ts';
import { anExecutor } from './an_executor.ts';
import { said, shell, withSandbox } from './box.ts';
import { aTest, judging } from './judgings.ts';

const KiB = 1024;
/** Nobody without a right raises this limit. */
const hard = spawnSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).stdout.trim();
const MACHINE_FILES = hard === 'unlimited' ? Infinity : Number(hard);

/** All limits at one end, those of requests too. */
function policyAt(end: 0 | 1, fields: readonly LimitField[]) {
  const names = fields.flatMap((field) => {
    const { variable } = LIMITS[field];
    const value = spelt(field, LIMITS[field].range[end]);
    const rows = [[variable, value]];
    if ('request' in LIMITS[field]) rows.push([`${variable}_MAX`, value]);
    return rows;
  });
  return policyFrom(loadConfig(Object.fromEntries(names)));
}

const spelt = (field: LimitField, value: number) =>
  LIMITS[field].unit === 'ms' ? `${value}ms` : `${value}`;

t.test('the launcher takes the largest limits, with what each runtime takes besides', async (t) => {
  const { sandbox, close } = await withSandbox({ slots: 1 });
  t.teardown(close);
  const policy = policyAt(1, LIMIT_FIELDS);
  for (const { name, needs } of LANGUAGES) {
    const limits = limitsFor(needs, {}, policy);
    const files = Math.min(limits.files, MACHINE_FILES);
    const report = await sandbox.run(shell('echo ran', { limits: { ...limits, files } }));
    t.equal(said(report), 'ran', name);
  }
});

t.test('a runtime gets no more processes and files than there can be', async (t) => {
  const more: RuntimeNeeds = { ...LANGUAGES[0]!.needs, more_processes: 32, more_files: 64 };
  const { processes, files } = limitsFor(more, {}, policyAt(1, ['processes', 'files']));
  t.strictSame([processes, files], [LIMITS.processes.range[1], LIMITS.files.range[1]]);
  const usual = limitsFor(more);
  const { run } = DEFAULT_POLICY;
  t.strictSame([usual.processes, usual.files], [run.processes + 32, run.files + 64]);
});

t.test('a file is judged where the limit of the output is the largest', async (t) => {
  const { run } = await anExecutor(t, {
    languages: ['python'],
    policy: policyAt(1, ['stdout_bytes']),
  });
  const one = { stdout_file: 'out', tests: [aTest('', 'x')], outputs: ['*'] };
  const outcome = await run('python', "open('out', 'w').write('x')", { judging: judging(one) });
  t.equal(outcome.verdict, 'AC');
});

t.test('the files of a request fit into the smallest box', async (t) => {
  const { run } = await anExecutor(t, {
    languages: ['python'],
    policy: policyAt(0, ['disk_bytes', 'inodes']),
  });
  const below = (n: number) => Array.from({ length: 15 }, (_, at) => `${n}-${at}`).join('/');
  const files = Array.from({ length: 64 }, (_, n) => ({
    path: `${below(n)}/file`,
    bytes: Buffer.from('x'.repeat(16 * KiB)),
  }));
  const input = 'y'.repeat(7_000 * KiB);
  const stdin_file = `${below(64)}/input`;
  const look = `print(len(open('${files[63]!.path}').read()), len(open('${stdin_file}').read()))`;
  const tests = [aTest(input, `${16 * KiB} ${7_000 * KiB}`)];
  const outcome = await run('python', look, { judging: judging({ files, stdin_file, tests }) });
  t.equal(outcome.verdict, 'AC');
});
