// needs: isolation, c, javascript
/** Languages that are off by default, from the request to the record: a web process and a worker that have them on. */
import t from 'tap';
import { realWorker } from '../http/support/real_worker.ts';
import { startService } from '../http/support/service.ts';

const env = { RUNLEDGER_LANGUAGES: 'c,javascript' };

t.test('a deployment that has C and JavaScript on', async (t) => {
  const service = await startService(t, { webs: 1, hand_languages: [], env });
  t.equal(await realWorker(t, service.database, env), null, 'the worker runs');
  const key = await service.key();
  const path = '/api/submit?wait=true';
  const run = async (language: string, code: string) =>
    (await service.submit(key, { language, code }, { path })).json;

  const c = await run('c', '#include <stdio.h>\nint main(void) { puts("c"); return 3; }');
  t.match(c, { status: 'completed', verdict: 'RE', exit_code: 3, stdout: 'c\n', language: 'c' });
  t.match(c.compile, { exit_code: 0, cached: false });
  const js = await run('js', 'import "node:fs";\nconsole.log(await 6 * 7);');
  t.match(js, { verdict: 'AC', stdout: '42\n', language: 'javascript', compile: null });

  t.strictSame((await service.call({ path: '/api/languages', key })).json, ['c', 'javascript']);
  const off = await service.submit(key, { language: 'python', code: '' });
  t.match(off, {
    status: 400,
    json: { fields: [{ path: 'language', message: 'must be one of c, javascript, js' }] },
  });
});

t.test('a deployment that has not: they are names like any other', async (t) => {
  const service = await startService(t, { webs: 1 });
  const key = await service.key();
  const answers = [];
  for (const language of ['c', 'javascript', 'js', 'cobol'])
    answers.push((await service.submit(key, { language, code: '' })).json.fields);
  const message = 'must be one of python, py, cpp, c++, cxx, java';
  for (const fields of answers) t.strictSame(fields, [{ path: 'language', message }]);
});
