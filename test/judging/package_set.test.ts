/** The test set of a package: how outputs are compared. */
import t from 'tap';
import { LEGACY, legacy, newer, read, rejectAll, tokens } from './packages.ts';

t.test('flags of the default validator', async (t) => {
  const compared = async (flags: string) =>
    (await read(t, legacy(`validator_flags: ${flags}\n`))).set.compare;
  t.strictSame(await compared('case_sensitive'), tokens({ case_sensitive: true }));
  t.strictSame(await compared('float_tolerance 1e-6'), tokens({ absolute: 1e-6, relative: 1e-6 }));
  t.strictSame(
    await compared('float_relative_tolerance 1e-9 float_absolute_tolerance .1'),
    tokens({ absolute: 0.1, relative: 1e-9 }),
  );
  t.strictSame(
    await compared('space_change_sensitive'),
    tokens({ space_change_sensitive: true }),
  );
  t.strictSame(await compared('float_tolerance 1 float_tolerance 2'), tokens({ absolute: 2, relative: 2 }));
});

t.test('flags of a legacy group follow those of the problem', async (t) => {
  const { set } = await read(t, {
    ...LEGACY,
    'problem.yaml': 'validator_flags: float_tolerance 1e-6 case_sensitive\n',
    'data/secret/testdata.yaml': 'output_validator_flags: float_tolerance 1e-9\n',
  });
  t.strictSame(set.compare, tokens({ absolute: 1e-9, relative: 1e-9, case_sensitive: true }));
  t.equal(set.tests[0]?.compare, undefined);
});

t.test('flags that are wrong', async (t) => {
  const args = (words: string) =>
    newer('', { 'data/secret/test_group.yaml': `output_validator_args: [${words}]` });
  await rejectAll(t, [
    ['unknown', legacy('validator_flags: ignore_case'), /^data\/secret: "ignore_case" is not a flag/],
    ['twice', args('float_tolerance, "1", float_tolerance, "1"'), /^data\/secret: float_tolerance sets/],
    ['both', args('float_tolerance, "1", float_absolute_tolerance, "1"'), /a second time/],
    ['negative', args('float_tolerance, "-1"'), /a tolerance is a decimal number from 0/],
  ]);
});
