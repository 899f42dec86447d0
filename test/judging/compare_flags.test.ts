import t from 'tap';
import { compareFromFlags } from '../../src/judging/compare_flags.ts';

const words = (flags: string) => flags.split(' ').filter((word) => word !== '');
const DEFAULT = { by: 'tokens', case_sensitive: false, absolute: null, relative: null };

t.test('each flag sets its part of the comparison', async (t) => {
  const rows: [string, object][] = [
    ['', {}],
    ['case_sensitive', { case_sensitive: true }],
    ['case_sensitive case_sensitive', { case_sensitive: true }],
    ['space_change_sensitive', { space_change_sensitive: true }],
    ['float_absolute_tolerance 1e-6', { absolute: 1e-6 }],
    ['float_relative_tolerance .5', { relative: 0.5 }],
    ['float_tolerance 1E-9', { absolute: 1e-9, relative: 1e-9 }],
    ['float_tolerance 0', { absolute: 0, relative: 0 }],
    [
      'float_absolute_tolerance 2 case_sensitive float_relative_tolerance +3.',
      { absolute: 2, relative: 3, case_sensitive: true },
    ],
  ];
  for (const [flags, set] of rows) {
    t.strictSame(compareFromFlags(words(flags)), { compare: { ...DEFAULT, ...set } }, flags);
  }
});

t.test('a flag that cannot be read has one line that names it', async (t) => {
  const rows: [string[], string][] = [
    [['float_tolerence', '1'], '"float_tolerence" is not a flag of the default validator; '],
    [['1e-6'], '"1e-6" is not a flag'],
    [['constructor'], '"constructor" is not a flag'],
    [['a\nb'], '"a\\nb" is not a flag'],
    [['x'.repeat(100)], `"${'x'.repeat(64)}…" is not a flag`],
    [['float_tolerance'], 'float_tolerance needs a number behind it'],
    [['float_tolerance', 'case_sensitive'], 'float_tolerance "case_sensitive": a tolerance is'],
    [['float_absolute_tolerance', '-1'], 'float_absolute_tolerance "-1": a tolerance is'],
    [['float_relative_tolerance', '0x1'], 'float_relative_tolerance "0x1": a tolerance is'],
    [['float_relative_tolerance', 'inf'], 'float_relative_tolerance "inf": a tolerance is'],
    [['float_relative_tolerance', '1e999'], 'float_relative_tolerance "1e999": a tolerance is'],
    [['float_relative_tolerance', '1 2'], 'float_relative_tolerance "1 2": a tolerance is'],
    [['float_relative_tolerance', ''], 'float_relative_tolerance "": a tolerance is'],
  ];
  for (const [flags, line] of rows) {
    const { problem } = compareFromFlags(flags);
    t.ok(problem?.startsWith(line), `${problem}`);
    t.notMatch(problem, /\n/);
  }
});

t.test(
  'a tolerance that is set twice is an error in 2023-07; in legacy the last one counts',
  async (t) => {
    const again = words('float_tolerance 1 float_absolute_tolerance 2');
    t.strictSame(compareFromFlags(again), {
      problem: 'float_absolute_tolerance sets the absolute tolerance a second time',
    });
    t.strictSame(compareFromFlags(again, 'legacy'), {
      compare: { ...DEFAULT, absolute: 2, relative: 1 },
    });
  },
);
