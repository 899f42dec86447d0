/** A test set as callers see it: the answer of several calls. */
import * as v from 'valibot';
import { REQUEST_LIMITS, type RequestLimitName } from '../../domain/limits.ts';
import type { StoredSet } from '../../store/test_sets.ts';
import { uuid, whole } from './result_schema.ts';

type LimitEntries = Record<
  RequestLimitName,
  v.ExactOptionalSchema<v.GenericSchema<number>, undefined>
>;
const limits = REQUEST_LIMITS.map(({ name, description }) => {
  return [name, v.exactOptional(v.pipe(v.number(), v.description(description)))];
});
const LIMITS = v.strictObject(Object.fromEntries(limits) as LimitEntries);

export const TEST_SET = v.strictObject({
  id: v.pipe(uuid, v.description('For test_set of a submission.')),
  name: v.string(),
  tests: v.pipe(whole, v.description('How many tests it has.')),
  groups: v.pipe(whole, v.description('How many groups of tests it has, without the root.')),
  bytes: v.pipe(whole, v.description('The sizes of its files together; equal files count once.')),
  limits: v.pipe(
    LIMITS,
    v.description(
      'The limits that the package sets, times in seconds and sizes in bytes. Limits of a submission take precedence.',
    ),
  ),
  checker: v.pipe(
    v.nullable(v.string()),
    v.description(
      'The language of its checker; null: outputs are compared, or an interactor judges.',
    ),
  ),
  interactive: v.pipe(v.boolean(), v.description('The program talks with an interactor.')),
  sha256: v.pipe(
    v.string(),
    v.description('Of its manifest, which has the SHA-256 of each file: equal sets have the same.'),
  ),
  created_at: v.pipe(v.string(), v.metadata({ format: 'date-time' })),
});

export type TestSetRecord = v.InferOutput<typeof TEST_SET>;

export const EXAMPLE_TEST_SET: TestSetRecord = {
  id: 'f1980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11',
  name: 'Sum of two numbers',
  tests: 12,
  groups: 3,
  bytes: 48_221,
  limits: { cpu_time: 1, memory: 268_435_456 },
  checker: null,
  interactive: false,
  sha256: '5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9',
  created_at: '2026-11-20T09:22:23.104Z',
};

export function testSetRecord(set: StoredSet): TestSetRecord {
  return {
    id: set.id,
    name: set.name,
    tests: set.tests,
    groups: set.groups,
    bytes: set.bytes,
    limits: shown(set.limits),
    checker: set.checker,
    interactive: set.interactor !== null,
    sha256: set.sha256,
    created_at: set.created_at.toISOString(),
  };
}

/** Those that are set, with the names and units of a request. */
function shown(limits: StoredSet['limits']): TestSetRecord['limits'] {
  const given = REQUEST_LIMITS.flatMap(({ name, stored, unit }) => {
    const value = limits[stored];
    return value === undefined ? [] : [[name, unit === 'ms' ? value / 1000 : value]];
  });
  return Object.fromEntries(given);
}
