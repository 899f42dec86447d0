/** Where a package asks for more than a service allows, or needs more than it has by default. */
import t from 'tap';
import { A_TEST, legacy, newer, read } from './packages.ts';

const MiB = 1024 * 1024;
const limitOf = 'unless its operator says otherwise';

t.test('limits above those of a service are said', async (t) => {
  const { set, notes } = await read(
    t,
    newer('limits: {memory: 2048, output: 64, time_limit: 100}\n'),
  );
  t.match(set.limits, { memory_bytes: 2048 * MiB, output_bytes: 64 * MiB, cpu_time_ms: 100_000 });
  t.strictSame(notes, [
    `problem.yaml: limits.memory: a service allows at most 1024 MiB, ${limitOf}`,
    `problem.yaml: limits.output: a service allows at most 4 MiB, ${limitOf}`,
    `problem.yaml: the time limit: a service allows at most 15 s, ${limitOf}`,
  ]);
  t.strictSame((await read(t, newer('limits: {memory: 1024, output: 4}\n'))).notes, []);
});

t.test('those of a validator are said, too', async (t) => {
  const limits =
    'limits: {validation_memory: 2048, validation_output: 64, validation_time: 100, memory: 1}\n';
  const { set, notes } = await read(t, newer(limits, { 'output_validator/v.py': '' }));
  t.match(set.checker?.limits, { memory_bytes: 2048 * MiB, cpu_time_ms: 100_000 });
  t.strictSame(notes, [
    `problem.yaml: for the validator: limits.memory: a service allows at most 1024 MiB, ${limitOf}`,
    `problem.yaml: for the validator: limits.output: a service allows at most 4 MiB, ${limitOf}`,
    `problem.yaml: for the validator: the time limit: a service allows at most 15 s, ${limitOf}`,
  ]);
  t.strictSame((await read(t, newer(limits))).notes, [], 'there is none');
});

t.test('a program may print as much as the largest answer has', async (t) => {
  const withAnswer = (bytes: number, yaml = 'name: a\n') =>
    read(t, legacy(yaml, { ...A_TEST, 'data/secret/1.ans': 'a'.repeat(bytes) }));
  t.strictSame((await withAnswer(MiB / 2)).set.limits, {});
  t.strictSame((await withAnswer(MiB / 2 + 1)).set.limits, { output_bytes: 4 * MiB });
  const own = await withAnswer(MiB, 'limits: {output: 2}\n');
  t.strictSame(own.set.limits, { output_bytes: 2 * MiB });
  const flat = await read(t, { '1.in': '', '1.ans': 'a'.repeat(MiB) });
  t.strictSame(flat.set.limits, { output_bytes: 4 * MiB });
  const large = await withAnswer(4 * MiB + 1);
  t.strictSame(large.notes, [
    `secret/1: its answer is larger than the 4 MiB of output that a service allows, ${limitOf}`,
  ]);
});
