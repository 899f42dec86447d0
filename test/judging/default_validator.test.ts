/** The flags of the default validator. */
import t from 'tap';
import { LEGACY, read, tokens } from './packages.ts';

t.test('flags of the default validator', async (t) => {
  const compared = async (flags: string) =>
    (await read(t, { ...LEGACY, 'problem.yaml': `validator_flags: ${flags}\n` })).set.compare;
  t.strictSame(await compared('case_sensitive'), tokens({ case_sensitive: true }));
  t.strictSame(await compared('float_tolerance 1e-6'), tokens({ absolute: 1e-6, relative: 1e-6 }));
  t.strictSame(await compared('float_absolute_tolerance 0.5'), tokens({ absolute: 0.5 }));
  t.strictSame(
    await compared('float_relative_tolerance 1e-9 float_absolute_tolerance .1'),
    tokens({ absolute: 0.1, relative: 1e-9 }),
  );
  t.strictSame(await compared('space_change_sensitive case_sensitive'), 'exact');
});
