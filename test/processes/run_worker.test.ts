// needs: isolation
/** A worker that has not started: it looks at the isolation of its machine first. */
import t from 'tap';
import { stopsWhenAsked } from './silent_database.ts';

stopsWhenAsked(t, 'worker');
