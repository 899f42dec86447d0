/** A process that seals without end, until it is killed. */
import { connect } from '../../src/db.ts';
import { seal } from './seal_now.ts';

const db = connect(process.argv[2]!, { name: 'sealing', max: 1 });
for (;;) await seal(db);
