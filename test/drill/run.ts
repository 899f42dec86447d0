/**
 * Drills: what takes minutes, other people's programs or the network, and is not part of `make test`.
 *
 *   node test/drill/run.ts             all of them, one after the other
 *   node test/drill/run.ts NAME...     these; the name of a file of several stands for all of them
 *
 * A file NAME.drill.ts beside this one has a drill of this name, or several with their names. The last lines are the list: pass,
 * fail, or "not run" with the reason. Exit status 1 if one failed. Each keeps what it made in build/drill/NAME.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Drill, NotRun, openStage } from './drill.ts';

const ENDING = '.drill.ts';
const FILES = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith(ENDING))
  .map((name) => name.slice(0, -ENDING.length));

type Named = { file: string; name: string; drill: Drill };
type Outcome = { name: string; how: 'pass' | 'fail' | 'not run'; text: string };

async function main(given: readonly string[]): Promise<number> {
  const all = (await Promise.all(FILES.map(drillsOf))).flat();
  const called = (word: string) => all.filter(({ file, name }) => [file, name].includes(word));
  const unknown = given.find((word) => called(word).length === 0);
  if (unknown) {
    console.error(`${unknown}: no such drill; there are ${all.map(({ name }) => name).join(', ')}`);
    return 2;
  }
  const outcomes: Outcome[] = [];
  for (const each of given.length > 0 ? given.flatMap(called) : all)
    outcomes.push(await carryOut(each));
  const width = Math.max(...outcomes.map(({ name }) => name.length));
  for (const { name, how, text } of outcomes)
    console.log(`${how.padEnd(7)}  ${name.padEnd(width)}  ${text}`);
  return outcomes.some(({ how }) => how === 'fail') ? 1 : 0;
}

async function drillsOf(file: string): Promise<Named[]> {
  const { drill, drills = {} } = (await import(join(import.meta.dirname, file + ENDING))) as {
    drill?: Drill;
    drills?: Readonly<Record<string, Drill>>;
  };
  const named = { ...(drill && { [file]: drill }), ...drills };
  return Object.entries(named).map(([name, each]) => ({ file, name, drill: each }));
}

async function carryOut({ name, drill }: Named): Promise<Outcome> {
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
