/** The launcher's C modules have layers, as the rooms of src have: no circle, and a header for each module. */
import { execFileSync } from 'node:child_process';
import t from 'tap';
import { type CModule, circlesOf, cModules } from './support/c_modules.ts';

const FOLDER = 'src/sandbox';
/** A program, or code that is loaded into one: no other module uses it. */
const ENTRIES = new Set(['main', 'interpreter', 'fuzz_wire']);

const hasCompiler = (() => {
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    execFileSync('nm', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

if (!hasCompiler) t.pass('C modules', { skip: 'this machine has no cc or no nm' });
else {
  const modules = await cModules(FOLDER);

  t.test('no circle of modules, by include or by symbol', async (t) => {
    t.same(circlesOf(modules), []);
  });

  t.test('each module but an entry has a header of its name', async (t) => {
    for (const { name, sources } of modules)
      t.equal(sources.includes(`${name}.h`), !ENTRIES.has(name), name);
  });

  t.test('a module includes the header of each module that it calls', async (t) => {
    for (const { name, includes, refersTo } of modules)
      for (const [other, symbols] of refersTo)
        t.ok(includes.has(other), `${name} uses ${symbols.join(', ')} of ${other}`);
  });
}

t.test('a circle is found by include, by symbol, and through a third module', async (t) => {
  const module = (name: string, includes: string[], calls: string[] = []): CModule => ({
    name,
    sources: [],
    includes: new Set(includes),
    refersTo: new Map(calls.map((other) => [other, ['f']])),
  });
  t.same(circlesOf([module('a', ['b']), module('b', [])]), []);
  t.same(circlesOf([module('a', ['b']), module('b', ['a'])]), [['a', 'b']]);
  t.same(circlesOf([module('a', ['b']), module('b', [], ['a'])]), [['a', 'b']]);
  t.same(circlesOf([module('a', ['b']), module('b', ['c']), module('c', [], ['a'])]), [
    ['a', 'b', 'c'],
  ]);
});
