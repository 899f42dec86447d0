/** One request, from the network where this process runs: `ask.ts ORIGIN JSON`. Prints the reply as JSON. */
import { call } from '../http/support/call.ts';

const [origin, asked] = process.argv.slice(2) as [string, string];
console.log(JSON.stringify(await call(origin, JSON.parse(asked))));
