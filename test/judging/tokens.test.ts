import t from 'tap';
import { sameTokens, type TokenCompare } from '../../src/judging/tokens.ts';
import { dice } from './dice.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const TOKENS: TokenCompare = {
  by: 'tokens',
  case_sensitive: true,
  absolute: null,
  relative: null,
};

function same(output: string, answer: string, how: Partial<TokenCompare> = {}): boolean {
  return sameTokens({ ...TOKENS, ...how }, bytes(output), bytes(answer));
}

t.test('without a tolerance tokens are equal if their bytes are', async (t) => {
  const equal: [string, string][] = [
    ['', ''],
    ['', ' \n'],
    ['a b', ' a\n\t\v\f\rb\n'],
    ['1.0', '1.0'],
    ['9007199254740993', '9007199254740993'],
  ];
  for (const [a, b] of equal) {
    t.ok(same(a, b), JSON.stringify([a, b]));
    t.ok(same(b, a), JSON.stringify([b, a]));
  }
  const different: [string, string][] = [
    ['', 'a'],
    ['a b', 'ab'],
    ['a b', 'a'],
    ['a', 'a\u00a0'],
    ['a', 'A'],
    ['1', '1.0'],
    ['1', '+1'],
    ['0', '-0'],
    ['9007199254740993', '9007199254740992'],
  ];
  for (const [a, b] of different) {
    t.notOk(same(a, b), JSON.stringify([a, b]));
    t.notOk(same(b, a), JSON.stringify([b, a]));
  }
});

t.test('without case_sensitive the case of ASCII letters is ignored, and no other', async (t) => {
  const how = { case_sensitive: false };
  t.ok(same('Yes NO zZ aA', 'yEs no Zz Aa', how));
  t.ok(same('NaN', 'nan', how));
  for (const [a, b] of [
    ['[', '{'],
    ['@', '`'],
    ['É', 'é'],
    ['A', 'b'],
    ['0', 'P'],
  ]) {
    t.notOk(same(a!, b!, how), `${a} ${b}`);
  }
});

t.test('a tolerance is for tokens that both are numbers', async (t) => {
  const how = { absolute: 0.5 };
  const equal: [output: string, answer: string][] = [
    ['1.5', '1'],
    ['0.5', '1'],
    ['3.14e-2', '0.0314'],
    ['5.', '5'],
    ['.5', '0.5'],
    ['+007', '7'],
    ['1E5', '100000'],
    ['1e+5', '100000.0'],
    ['-0', '0'],
    ['x 1.4 y', 'x 1 y'],
    ['0e-1000000000', '0'],
  ];
  for (const [output, answer] of equal) t.ok(same(output, answer, how), `${output} ${answer}`);
  const different: [output: string, answer: string][] = [
    ['1.50000000000000000001', '1'],
    ['0.49999999999999999999', '1'],
    ['-1', '1'],
    ['1.2', 'x'],
    ['x', '1.2'],
    ['1.2x', '1.2'],
    ['1.2', '1.2x'],
    ['0x1', '1'],
    ['1,0', '1.0'],
    ['1_0', '10'],
    ['1e', '1'],
    ['1e+', '1'],
    ['1e1.0', '10'],
    ['.', '0'],
    ['+', '0'],
    ['-', '0'],
    ['', '0'],
    ['.e1', '0'],
    ['1.0.0', '1'],
    ['--1', '1'],
    ['inf', '1e400'],
    ['nan', '0'],
    ['0e1000000001', '0'],
    ['1 1', '1'],
  ];
  for (const [output, answer] of different) {
    t.notOk(same(output, answer, how), `${output} ${answer}`);
  }
});

t.test('either tolerance is enough, and the relative one is of the answer', async (t) => {
  t.ok(same('110', '100', { relative: 0.1 }));
  t.notOk(same('100', '110', { relative: 0.09 }), 'a tenth of 100 is more than 0.09 of 110');
  t.ok(same('100', '110', { relative: 0.1 }));
  t.notOk(same('110.0000001', '100', { relative: 0.1 }));
  t.ok(same('-110', '-100', { relative: 0.1 }));
  t.notOk(same('110', '-100', { relative: 0.1 }));
  t.ok(same('-0.1', '0', { relative: 1e-9, absolute: 0.1 }));
  t.notOk(same('-0.1', '0', { relative: 100 }), 'zero has no relative tolerance');
  t.ok(same('1000001', '1000000', { relative: 1e-6, absolute: 1e-6 }));
  t.ok(same('0.000001', '0', { relative: 1e-6, absolute: 1e-6 }));
  t.notOk(same('1000002', '1000000', { relative: 1e-6, absolute: 1e-6 }));
});

t.test('a tolerance is met to the last digit, where doubles would be wrong', async (t) => {
  t.ok(same('0.300001', '0.3', { absolute: 1e-6 }));
  t.notOk(same('0.3000010000000000000001', '0.3', { absolute: 1e-6 }));
  t.ok(same('1.000000001', '1', { relative: 1e-9 }));
  t.notOk(same('1.0000000010000000000000000001', '1', { relative: 1e-9 }));
  t.ok(same('0', '0.0', { absolute: 0 }));
  t.notOk(same('9007199254740993', '9007199254740992', { absolute: 1e-6 }));
  t.notOk(same('9007199254740993', '9007199254740992', { absolute: 0, relative: 0 }));
  t.notOk(same('9007199254740993', '9007199254740992', { relative: 1e-17 }));
  t.ok(same('9007199254740993', '9007199254740992', { relative: 1e-15 }));
  t.ok(same('9007199254740993', '9007199254740992', { absolute: 1 }));
});

t.test('numbers of any size are compared exactly', async (t) => {
  const nines = '9'.repeat(400);
  t.notOk(same(`${nines}8`, `${nines}9`, { absolute: 0.5 }));
  t.ok(same(`${nines}8`, `${nines}9`, { absolute: 1 }));
  t.ok(same(`${nines}8`, `${nines}9`, { relative: 1e-300 }));
  t.ok(same(`1${'0'.repeat(400)}`, '1e400', { absolute: 0 }));
  t.ok(same('1e1000000000', '10e999999999', { absolute: 0 }));
  t.notOk(same('1e999999999', '1e-999999999', { absolute: 1e300 }));
  t.ok(same('1e-999999999', '2e-999999999', { absolute: 1e-300 }));
  t.notOk(same('1e-999999999', '2e-999999999', { relative: 0.4 }));
  t.ok(same('50', '1e-999999999', { absolute: 50 }));
  t.notOk(same('50', '-1e-999999999', { absolute: 50 }));
  t.ok(same(`0.${'3'.repeat(5000)}`, `0.${'3'.repeat(4999)}4`, { absolute: 1e-300 }));
});

t.test('space_change_sensitive compares the white space, too', async (t) => {
  const how = { space_change_sensitive: true } as const;
  t.ok(same(' a\n b ', ' a\n b ', how));
  t.ok(same('1.0 b\n', '1 b\n', { ...how, absolute: 0 }));
  for (const output of ['a b', ' a\tb\n', 'a  b\n', 'a b\n\n', ' a b\n']) {
    t.notOk(same(output, 'a b\n', how), JSON.stringify(output));
  }
});

/** The definition, in exact fractions: value = digits / 10^places. */
function decimalOf(token: string): { digits: bigint; places: number } | null {
  const [, sign, whole, point, fraction, exponent] =
    /^([+-]?)(\d*)(\.?)(\d*)(?:e([+-]?\d+))?$/i.exec(token) ?? [];
  if (whole === undefined || `${whole}${fraction}` === '') return null;
  if (fraction !== '' && point === '') return null;
  const digits = BigInt(`${whole}${fraction}`) * (sign === '-' ? -1n : 1n);
  return { digits, places: fraction!.length - Number(exponent ?? 0) };
}

const scale = ({ digits, places }: { digits: bigint; places: number }, to: number) =>
  digits * 10n ** BigInt(to - places);
const size = (value: bigint) => (value < 0n ? -value : value);

function sameByDefinition(how: TokenCompare, output: string, answer: string): boolean {
  const split = (text: string) => text.split(/[ \t\n\v\f\r]+/).filter((token) => token !== '');
  const [outputs, answers] = [split(output), split(answer)];
  if (outputs.length !== answers.length) return false;
  return answers.every((wanted, at) => {
    const given = outputs[at]!;
    const text = (token: string) => (how.case_sensitive ? token : token.toLowerCase());
    if (text(given) === text(wanted)) return true;
    const [a, s] = [decimalOf(wanted), decimalOf(given)];
    if (a === null || s === null) return false;
    const PLACES = 200;
    const difference = size(scale(a, PLACES) - scale(s, PLACES));
    const allowed = (tolerance: number, of: bigint) => {
      const { digits, places } = decimalOf(String(tolerance))!;
      return difference * 10n ** BigInt(PLACES) <= digits * 10n ** BigInt(PLACES - places) * of;
    };
    return (
      (how.absolute !== null && allowed(how.absolute, 10n ** BigInt(PLACES))) ||
      (how.relative !== null && allowed(how.relative, size(scale(a, PLACES))))
    );
  });
}

t.test('sameTokens agrees with its definition on 30,000 small texts', async (t) => {
  const { pick, text, below } = dice(7);
  const parts = ['0', '1', '9', '99', '.', '-', '+', 'e', 'E1', 'e-2', ' ', '\n', 'x', 'X', '00'];
  const tolerances = [null, 0, 0.1, 1, 1e-2, 0.15, 12.5];
  let equal = 0;
  let by_tolerance = 0;
  for (let i = 0; i < 30_000; i++) {
    const answer = text(parts, 6);
    const cut = below(answer.length + 1);
    const output =
      below(3) === 0 ? text(parts, 6) : answer.slice(0, cut) + pick(parts) + answer.slice(cut);
    // The definition writes out the zeros of an exponent.
    if (/e[+-]?\d{3}/i.test(`${output} ${answer}`)) continue;
    const how = {
      ...TOKENS,
      case_sensitive: below(2) === 0,
      absolute: pick(tolerances),
      relative: pick(tolerances),
    };
    const expected = sameByDefinition(how, output, answer);
    if (expected) equal++;
    if (expected && !sameByDefinition({ ...how, absolute: null, relative: null }, output, answer)) {
      by_tolerance++;
    }
    if (sameTokens(how, bytes(output), bytes(answer)) !== expected) {
      t.fail(JSON.stringify([output, answer, how]));
    }
  }
  t.ok(equal > 2_000, `${equal} were equal`);
  t.ok(by_tolerance > 200, `${by_tolerance} by their tolerance`);
});

t.test('pairs of numbers at the edge of a tolerance agree with the definition', async (t) => {
  const { pick, below } = dice(11);
  const digits = (most: number) =>
    Array.from({ length: 1 + below(most) }, () => below(10)).join('');
  let within = 0;
  for (let i = 0; i < 20_000; i++) {
    const [absolute, relative] = [pick([null, 1e-3, 5e-4, 2]), pick([null, 1e-2, 0.5, 1])];
    const answer = `${pick(['', '-'])}${digits(18)}.${digits(6)}`;
    const { digits: a, places } = decimalOf(answer)!;
    const tolerance = decimalOf(String(pick([absolute, relative, 1]) ?? 0))!;
    const finer = scale({ digits: a, places }, 20);
    const share = pick([true, false]);
    const allowed = share
      ? (size(finer) * scale(tolerance, 20)) / 10n ** 20n
      : scale(tolerance, 20);
    const value = finer + (allowed + BigInt(below(3) - 1)) * BigInt(pick([1, -1]));
    const text = String(size(value)).padStart(21, '0');
    const output = `${value < 0n ? '-' : ''}${text.slice(0, -20)}.${text.slice(-20)}`;
    const how = { ...TOKENS, absolute, relative };
    const expected = sameByDefinition(how, output, answer);
    if (expected) within++;
    if (sameTokens(how, bytes(output), bytes(answer)) !== expected) {
      t.fail(JSON.stringify([output, answer, how]));
    }
  }
  t.ok(within > 2_000, `${within} were within it`);
  t.ok(within < 18_000, `${within} were within it`);
});

/** Counts reads instead of time: a comparison may read each byte a few times, however hostile the text is. */
function readsOf(output: Uint8Array, answer: Uint8Array, how: Partial<TokenCompare>): number {
  let reads = 0;
  const counted = (text: Uint8Array) =>
    new Proxy(text, {
      get(target, name) {
        if (typeof name === 'string' && /^\d+$/.test(name)) reads++;
        const value = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  sameTokens({ ...TOKENS, ...how }, counted(output), counted(answer));
  return reads;
}

t.test('each byte is read a bounded number of times', async (t) => {
  const N = 20_000;
  const how = { case_sensitive: false, absolute: 1e-9, relative: 1e-9 };
  const hostile: [string, string, string][] = [
    ['spaces', ' '.repeat(N), `${' '.repeat(N)}x`],
    ['one token', 'x'.repeat(N), `${'x'.repeat(N)}y`],
    ['digits', `${'7'.repeat(N)}8`, `${'7'.repeat(N)}9`],
    ['zeros before a digit', `${'0'.repeat(N)}1`, `${'0'.repeat(N)}2`],
    ['zeros behind the point', `.${'0'.repeat(N)}1`, `.${'0'.repeat(N)}2`],
    ['digits of an exponent', `1e${'0'.repeat(N)}1`, '10'],
    ['a long exponent', `1e${'9'.repeat(N)}`, '1'],
    ['borrows', `1${'0'.repeat(N)}`, '9'.repeat(N)],
    ['many numbers', '1.0000000001 '.repeat(N / 10), '1 '.repeat(N / 10)],
    ['many numbers at the edge', '1.000000001 '.repeat(N / 10), '1 '.repeat(N / 10)],
    ['many huge exponents', '1e999999999 '.repeat(N / 10), '1.0e999999999 '.repeat(N / 10)],
    ['no number', `${'7'.repeat(N)}x`, '7'],
  ];
  for (const [name, output, answer] of hostile) {
    const reads = readsOf(bytes(output), bytes(answer), how);
    const length = output.length + answer.length;
    t.ok(reads < 30 * length + 1_000, `${name}: ${reads} reads of ${length} bytes`);
  }
});

t.test('large texts need no memory beside them', async (t) => {
  const MiB = 2 ** 20;
  const filled = (byte: string, last: string) => {
    const text = new Uint8Array(8 * MiB).fill(byte.charCodeAt(0));
    text[text.length - 1] = last.charCodeAt(0);
    return text;
  };
  for (const [byte, a, b] of [
    [' ', 'x', 'y'],
    ['7', '8', '9'],
    ['x', 'x', 'y'],
  ] as const) {
    const [output, answer] = [filled(byte, a), filled(byte, b)];
    const before = process.memoryUsage();
    t.notOk(sameTokens({ ...TOKENS, absolute: 0.5 }, output, answer));
    const after = process.memoryUsage();
    t.ok(after.arrayBuffers - before.arrayBuffers < MiB, 'no buffer');
    t.ok(after.heapUsed - before.heapUsed < 16 * MiB, 'no heap');
  }
});
