/** Programs for tests of pairs. */
import type { BoxRequest } from '../../src/executor/sandbox.ts';
import { type LIMITS, python, text } from '../executor/box.ts';

type Parts = Partial<Omit<BoxRequest, 'limits' | 'stdin'>> & { limits?: Partial<typeof LIMITS> };
const PROBE = 'import os, sys, time, signal\nsay = lambda *a: print(*a, flush=True)\n';
export const side = (source: string, parts: Parts = {}) => python(PROBE + source, parts);
export const LONG = { wall_ms: 60_000, cpu_ms: 30_000 };
export const erred = ({ stderr }: { stderr: Uint8Array }) => text(stderr).trim();
/** Reads to the end of its input, says on stderr how much there was, and ends with 42. */
export const READER = side(
  'n = len(sys.stdin.buffer.read())\nprint("read", n, file=sys.stderr)\nsys.exit(42)',
  { limits: LONG },
);
export const GUESSER = side(`
low, high = 1, 1000
while True:
    middle = (low + high) // 2
    say(middle)
    answer = input()
    if answer == 'right': break
    if answer == 'more': low = middle + 1
    else: high = middle - 1
`);
export const GUESSED = side(`
secret, rounds = 437, 0
while True:
    guess = int(input())
    rounds += 1
    say('right' if guess == secret else 'more' if guess < secret else 'less')
    if guess == secret: break
print(rounds, 'rounds', file=sys.stderr)
sys.exit(42)
`);
