import { randomBytes } from 'node:crypto';
import t from 'tap';
import { newId, uuidv7 } from '../../src/domain/ids.ts';

t.test('the example of RFC 9562, appendix A.6', async (t) => {
  const random = Buffer.from('0cc318c4dc0c0c07398f', 'hex');
  t.equal(uuidv7(0x017f22e279b0, random), '017f22e2-79b0-7cc3-98c4-dc0c0c07398f');
});

t.test('ids are in the order of their milliseconds', async (t) => {
  const ids = [0, 1, 255, 256, 2 ** 32, 2 ** 47, 2 ** 48 - 1].map((ms) =>
    uuidv7(ms, randomBytes(10)),
  );
  t.same([...ids].sort(), ids);
  for (const id of ids)
    t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

t.test('too few random bytes are an error of the caller', async (t) => {
  t.throws(() => uuidv7(1, randomBytes(9)), RangeError);
});

t.test('new ids are different, also across the refills of their random bytes', async (t) => {
  const ids = Array.from({ length: 2_000 }, newId);
  const random = ids.map((id) => id.slice(15));
  t.equal(new Set(random).size, ids.length, 'in their random part alone');
  t.ok(Math.abs(Number.parseInt(ids[0]!.replace('-', '').slice(0, 12), 16) - Date.now()) < 60_000);
});
