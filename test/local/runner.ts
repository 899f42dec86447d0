/** Not a test: a run of tests that gets killed. Takes two databases and says where they are. */
import { freshDatabase } from '../support/database.ts';

const t = { teardown: () => {} };
const [one, two] = await Promise.all([freshDatabase(t), freshDatabase(t)]);
process.stdout.write(`${JSON.stringify({ one: one.superuser_url, two: two.superuser_url })}\n`);
setInterval(() => {}, 60_000);
