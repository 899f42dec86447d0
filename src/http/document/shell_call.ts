/** A call of the document as a line for bash or zsh: it can be copied, and works when ID is replaced. */
import type { OperationObject } from '../api/openapi_types.ts';

/** Where the page has the address of this service. No other text of the page has it. */
export const ORIGIN = '{origin}';

const KEY = '-H "X-API-Key: $RUNLEDGER_API_KEY"';
/** Each call needs its own: one that is printed here would be used twice. */
const NEW_KEY = '-H "Idempotency-Key: $(cat /proc/sys/kernel/random/uuid 2>/dev/null || uuidgen)"';

export function shellCall(method: string, path: string, operation: OperationObject): string {
  const { parameters = [], requestBody, security } = operation;
  const has = (name: string) => parameters.some((parameter) => parameter.name === name);
  const query = method === 'GET' && has('wait') ? '?wait=true' : '';
  return curl(`${path.replace('{id}', 'ID')}${query}`, [
    ...(method === 'DELETE' ? ['-X DELETE'] : []),
    ...(security.length > 0 ? [KEY] : []),
    ...(has('Idempotency-Key') ? [NEW_KEY] : []),
    ...Object.entries(requestBody?.content ?? {}).flatMap(([type, { examples = {} }]) => {
      const [first] = Object.values(examples);
      const body = first === undefined ? '--data-binary @problem.zip' : jsonBody(first.value);
      return [`-H 'Content-Type: ${type}'`, body];
    }),
  ]);
}

/** A submission that waits for its result. */
export const shellRun = (submission: object): string =>
  curl('/api/submit?wait=true', [KEY, "-H 'Content-Type: application/json'", jsonBody(submission)]);

const jsonBody = (value: unknown): string => `-d ${quoted(JSON.stringify(value))}`;

function curl(target: string, options: readonly string[]): string {
  return [`curl '${ORIGIN}${target}'`, ...options].join(' \\\n  ');
}

/** Within single quotes a shell changes nothing. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
