/**
 * Drills: what takes minutes, other people's programs or the network, and is not part of `make test`.
 *
 *   node test/drill/run.ts             all of them, one after the other
 *   node test/drill/run.ts NAME...     these
 *
 * A drill is a file NAME.drill.ts beside this one. The last lines are the list: pass, fail, or "not run" with the reason. Exit
 * status 1 if one failed. Each keeps what it made in build/drill/NAME.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Drill, NotRun, openStage } from './drill.ts';

const ENDING = '.drill.ts';
const NAMES = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith(ENDING))
  .map((name) => name.slice(0, -ENDING.length));

type Outcome = { name: string; how: 'pass' | 'fail' | 'not run'; text: string };

async function main(given: readonly string[]): Promise<number> {
  const unknown = given.find((name) => !NAMES.includes(name));
  if (unknown) {
    console.error(`${unknown}: no such drill; there are ${NAMES.join(', ')}`);
    return 2;
  }
  const outcomes: Outcome[] = [];
  for (const name of given.length > 0 ? given : NAMES) outcomes.push(await carryOut(name));
  for (const { name, how, text } of outcomes)
    console.log(`${how.padEnd(7)}  ${name.padEnd(12)}  ${text}`);
  return outcomes.some(({ how }) => how === 'fail') ? 1 : 0;
}

async function carryOut(name: string): Promise<Outcome> {
  const { drill } = (await import(join(import.meta.dirname, name + ENDING))) as { drill: Drill };
  console.error(`${name}: ${drill.shows}`);
  const stage = await openStage(name, (line) => console.error(line));
  const began = performance.now();
  try {
    await drill.run(stage);
    const seconds = Math.round((performance.now() - began) / 1_000);
    return { name, how: 'pass', text: `${seconds} s: ${drill.shows}` };
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof NotRun) return { name, how: 'not run', text: message };
    console.error((error as Error).stack);
    return { name, how: 'fail', text: message.split('\n')[0]! };
  } finally {
    await stage.close();
  }
}

process.exitCode = await main(process.argv.slice(2));
