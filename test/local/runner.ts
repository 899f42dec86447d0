/** Not a test: a run that gets killed. It takes two databases and prints their addresses. */
import { freshDatabase } from '../support/database.ts';

const t = { teardown: () => {} };
const [one, two] = await Promise.all([freshDatabase(t), freshDatabase(t)]);
process.stdout.write(`${JSON.stringify({ one: one.superuser_url, two: two.superuser_url })}\n`);
setInterval(() => {}, 60_000);
