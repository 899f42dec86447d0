/** A client as others write them: strict types, the fields that it knows, polling. It prints a line for each step. */
import { setTimeout } from 'node:timers/promises';
import * as v from 'valibot';

const LANGUAGES = v.array(v.string());
const ACCEPTED = v.object({ id: v.pipe(v.string(), v.uuid()) });
const number = v.nullable(v.number());
const text = v.nullable(v.string());
/** Fields that it does not name are ignored. */
const RECORD = v.object({
  id: v.pipe(v.string(), v.uuid()),
  status: v.string(),
  verdict: text,
  exit_code: v.nullable(v.pipe(v.number(), v.integer())),
  stdout: text,
  stderr: text,
  cpu_time: number,
  wall_time: number,
  memory_peak: v.nullable(v.pipe(v.number(), v.integer())),
});

const { SERVER, KEY } = process.env;

async function call(path: string, wanted: number, body?: object): Promise<unknown> {
  const headers = { 'x-api-key': KEY!, 'content-type': 'application/json' };
  const init = body && { method: 'POST', body: JSON.stringify(body) };
  const answer = await fetch(`${SERVER}${path}`, { headers, ...init });
  if (answer.status !== wanted) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function poll({ id }: v.InferOutput<typeof ACCEPTED>) {
  for (;;) {
    const record = v.parse(RECORD, await call(`/api/result/${id}`, 200));
    if (record.status !== 'pending' && record.status !== 'running') return record;
    await setTimeout(50);
  }
}

console.log('languages', v.parse(LANGUAGES, await call('/api/languages', 200)).join());

const hello = { language: 'python', code: 'print(6 * 7)' };
const polled = await poll(v.parse(ACCEPTED, await call('/api/submit', 202, hello)));
console.log('polled', polled.status, polled.verdict, polled.stdout?.trim());

const slow = { language: 'cpp', code: 'int main() {}' };
const waited = await poll(v.parse(ACCEPTED, await call('/api/submit?wait=true', 408, slow)));
console.log('waited', waited.status, waited.verdict);
