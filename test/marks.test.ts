import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { MARKS, mark } from '../src/marks.ts';
import { sourcesBelow } from './support/imports.ts';

const named = (path: string, pattern: RegExp) =>
  [...readFileSync(path, 'utf8').matchAll(pattern)].map(([, moment]) => moment!);

t.test(
  'each moment is marked in one place, and the budget leaves out those beside the way',
  (t) => {
    const moments = named('src/marks.ts', /^ {2}\| '([^']+)'/gm);
    t.ok(moments.length >= 10);
    const marked = sourcesBelow('src').flatMap((path) => named(path, /\bmark\('([^']+)'\)/g));
    t.strictSame(marked.toSorted(), moments.toSorted());
    const beside = ['web has its commit', 'worker has the commit of the end'];
    const steps = named('bench/budget.ts', /^ {2}\['((?:web|worker) [^']+)', /gm);
    t.strictSame(
      steps,
      moments.filter((moment) => !beside.includes(moment)),
    );
    t.end();
  },
);

t.test('who listens gets the moments, and nobody needs to', (t) => {
  mark('web answers');
  const got: unknown[] = [];
  const keep = (moment: unknown) => void got.push(moment);
  subscribe(MARKS, keep);
  mark('web has the request');
  unsubscribe(MARKS, keep);
  mark('web answers');
  t.strictSame(got, ['web has the request']);
  t.end();
});
