/** Rules of the calls of test sets. */
import { deepEqual, equal, match, notEqual } from 'node:assert/strict';
import { archiveOf, emptyTests, type Files, LEGACY } from '../../judging/packages.ts';
import type { Reply } from '../support/call.ts';
import type { Service } from '../support/service.ts';
import { keyOf, rejectedFor } from './asking.ts';
import { chapter, type Rule } from './rule.ts';

const { contract } = chapter('test sets');

const PATH = '/api/test-sets';

async function upload(service: Service, files: Files, key?: string): Promise<Reply> {
  return service.call({
    method: 'POST',
    path: PATH,
    key: key ?? (await keyOf(service)),
    body: archiveOf(files),
    headers: { 'content-type': 'application/zip' },
  });
}

export const testSetRules: Rule[] = [
  contract('a problem package is a 201 with what it holds', async (s) => {
    const { status, json, headers } = await upload(await s.plain(), LEGACY);
    equal(status, 201);
    equal(headers.location, `${PATH}/${json.id}`);
    deepEqual(
      Object.keys(json),
      'id name tests groups bytes limits checker interactive sha256 created_at'.split(' '),
    );
    match(json.id, /^f/);
  }),
  contract('a flat archive of NAME.in and NAME.ans is a set, too', async (s) => {
    const { status, json } = await upload(await s.plain(), emptyTests('1', '2'));
    equal(status, 201);
    equal(json.tests, 2);
  }),
  contract('the same content again is a 200 with the same set', async (s) => {
    const service = await s.plain();
    const first = await upload(service, emptyTests('a'));
    const again = await upload(service, emptyTests('a'));
    equal(again.status, 200);
    deepEqual(again.json, first.json);
    const other = await upload(service, emptyTests('b'));
    equal(other.status, 201);
    notEqual(other.json.id, first.json.id);
  }),
  contract('a bad archive is a 400 that names the entry', async (s) => {
    const service = await s.plain();
    rejectedFor(await upload(service, { '1.in': '', '1.ans': '', '2.in': '' }), '2.in');
    rejectedFor(await upload(service, { '../1.in': '', '../1.ans': '' }), '../1.in');
    rejectedFor(await upload(service, {}), '');
  }),
  contract('an upload that is no zip archive by its type is a 415 with Accept', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    const reply = await service.call({ path: PATH, method: 'POST', key, body: {} });
    equal(reply.status, 415);
    equal(reply.headers.accept, 'application/zip');
  }),
  contract('a set belongs to its account', async (s) => {
    const service = await s.plain();
    const mine = await upload(service, LEGACY, await service.key());
    const path = `${PATH}/${mine.json.id}`;
    equal((await service.call({ path, key: await service.key() })).status, 404);
    const theirs = await upload(service, LEGACY, await service.key());
    equal(theirs.status, 201);
    notEqual(theirs.json.id, mine.json.id);
  }),
  contract('a deleted set is gone', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const { json } = await upload(service, LEGACY, key);
    const path = `${PATH}/${json.id}`;
    const deleted = await service.call({ method: 'DELETE', path, key });
    equal(deleted.status, 204);
    equal(deleted.text, '');
    equal((await service.call({ path, key })).status, 404);
    deepEqual((await service.call({ path: PATH, key })).json, { test_sets: [] });
  }),
  contract('a set that a waiting submission needs is not deleted: 409', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const { json: set } = await upload(service, LEGACY, key);
    const body = { language: 'py', code: '', test_set: set.id };
    const { json } = await service.submit(key, body);
    const path = `${PATH}/${set.id}`;
    const reply = await service.call({ method: 'DELETE', path, key });
    equal(reply.status, 409);
    equal(reply.json.error, 'in_use');
    await service.worker.finish(json.id);
    equal((await service.call({ method: 'DELETE', path, key })).status, 204);
  }),
  contract('what a set judged is listed, also once the set is deleted', async (s) => {
    const service = await s.plain();
    const key = await service.key();
    const { json: set } = await upload(service, LEGACY, key);
    const body = { language: 'py', code: '', test_set: set.id };
    const ids: string[] = [];
    for (const each of [body, { language: 'py', code: '' }, body])
      ids.push((await service.submit(key, each)).json.id);
    const [first, , third] = ids as [string, string, string];
    for (const id of ids) await service.worker.finish(id);
    const find = async (query: string, by = key) =>
      (await service.call({ path: `/api/submissions?${query}`, key: by })).json.submissions?.map(
        ({ id }: { id: string }) => id,
      );
    const judged = `test_set=${set.id}`;
    deepEqual(await find(judged), [third, first]);
    deepEqual(await find(`test_set=${set.id.toUpperCase()}&verdict=WA`), []);
    deepEqual(await find(judged, await service.key()), [], 'of another account');
    await service.call({ method: 'DELETE', path: `${PATH}/${set.id}`, key });
    deepEqual(await find(judged), [third, first]);
    deepEqual(await find('test_set=f1980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11'), []);
    const wrong = await service.call({ path: '/api/submissions?test_set=7', key });
    rejectedFor(wrong, '?test_set');
  }),
  contract('an id that is no UUID is a 400, and an unknown one a 404', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    for (const method of ['GET', 'DELETE']) {
      rejectedFor(await service.call({ method, path: `${PATH}/x`, key }), 'id');
      const unknown = `${PATH}/f1980f5e-3c1a-7d42-9b6e-5f0c2a8d7e11`;
      equal((await service.call({ method, path: unknown, key })).status, 404);
    }
  }),
  contract('another method is a 405 with Allow', async (s) => {
    const service = await s.plain();
    const key = await keyOf(service);
    const list = await service.call({ method: 'PUT', path: PATH, key });
    equal(list.status, 405);
    deepEqual(list.headers.allow?.split(', ').sort(), ['GET', 'HEAD', 'OPTIONS', 'POST']);
    const one = await service.call({ method: 'POST', path: `${PATH}/x`, key });
    deepEqual(one.headers.allow?.split(', ').sort(), ['DELETE', 'GET', 'HEAD', 'OPTIONS']);
  }),
];
