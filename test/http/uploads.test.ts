import t from 'tap';
import { createUploads } from '../../src/http/api/uploads.ts';

t.test('a process takes a few uploads at once, and of an account one', async (t) => {
  const uploads = createUploads(2);
  const leave = uploads.enter('a');
  t.ok(leave);
  t.equal(uploads.enter('a'), null);
  t.ok(uploads.enter('b'));
  t.equal(uploads.enter('c'), null);
  leave!();
  const again = uploads.enter('a');
  t.ok(again);
  leave!();
  t.equal(uploads.enter('c'), null, 'leaving twice frees nothing of the next one');
  again!();
  t.ok(uploads.enter('c'));
});
