/** Checks the facts of every event against its schema. */
import type { Db } from '../../src/db.ts';
import { problemOf } from '../../src/domain/events.ts';

type Place = { stream: string; version: number; type: string; schema: number };
export type EventProblem = Place & { problem: string };

/** Read at once: large enough to cost few round trips, and small enough to be held in memory. */
const PAGE_EVENTS = 5000;

/** The events whose facts are not of their schema, as they are found, and those that have no schema. */
export async function* eventProblems(db: Db): AsyncGenerator<EventProblem> {
  const pages = db<(Place & { facts: unknown })[]>`
    select stream, version, type, schema, facts from runledger.events`.cursor(PAGE_EVENTS);
  for await (const page of pages)
    for (const { facts, ...place } of page) {
      const problem = problemOf({ ...place, facts });
      if (problem !== null) yield { ...place, problem };
    }
}

export const lineOf = ({ stream, version, type, problem }: EventProblem): string =>
  `the facts of ${stream} version ${version} (${type}) are not of their schema: ${problem}`;
