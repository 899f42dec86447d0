import { setImmediate as turn } from 'node:timers/promises';
import t from 'tap';
import { afterTurnEnd, atTurnEnd } from '../src/turn_end.ts';

t.test('what is short comes before long work, with all that follows from it', async (t) => {
  const done: string[] = [];
  const short = (name: string) =>
    new Promise<void>(atTurnEnd).then(() => {
      done.push(name);
    });
  afterTurnEnd(() => done.push('long 1'));
  void short('short 1').then(() => done.push('after short 1'));
  afterTurnEnd(() => {
    done.push('long 2');
    afterTurnEnd(() => done.push('long of the next turn'));
    void short('short of the next turn');
  });
  void short('short 2');
  t.strictSame(done, [], 'nothing is done before the end of the turn');
  await turn();
  t.strictSame(done, ['short 1', 'short 2', 'after short 1', 'long 1', 'long 2']);
  await turn();
  t.strictSame(done.slice(5), ['short of the next turn', 'long of the next turn']);
});

t.test('also before long work that comes while a turn ends', async (t) => {
  const done: string[] = [];
  setImmediate(() => afterTurnEnd(() => done.push('long')));
  atTurnEnd(() => done.push('short of the turn before'));
  await turn();
  t.strictSame(done, ['short of the turn before'], 'it needs no long work');
  atTurnEnd(() => done.push('short'));
  await turn();
  t.strictSame(done, ['short of the turn before', 'short', 'long']);
});
