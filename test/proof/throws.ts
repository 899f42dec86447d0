import type { Test } from 'tap';

/** The function throws an error of this class; which one a bare pattern would not say. */
export function throwsA(
  t: Test,
  kind: new (...args: never[]) => Error,
  run: () => unknown,
  name: string = kind.name,
): void {
  try {
    run();
  } catch (error) {
    t.ok(error instanceof kind, `${name}: ${error}`);
    return;
  }
  t.fail(`${name}: nothing was thrown`);
}
