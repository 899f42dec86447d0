import {
  createSealer,
  lastCheckpoint,
  lastSketch,
  noteWithCosignatures,
} from '../../store/checkpoints.ts';
import { type Command, CommandFailed } from '../command.ts';
import { requiredLogKey } from '../signing.ts';

export const command: Command = {
  summary:
    'seal the log now and print the newest checkpoint with its cosignatures; keep it where the database administrator cannot write',
  options: {
    sketch: { help: 'print JSON with the sketch, too, by which verify names events that differ' },
  },
  example: 'seal > checkpoint.txt',
  async run(context) {
    const sealer = createSealer(await requiredLogKey(context));
    const db = await context.database();
    await sealer.seal(db);
    // Another process may have sealed: nothing is printed that is not ours.
    await sealer.check(db);
    const last = await lastCheckpoint(db);
    if (!last) throw new CommandFailed('the log is empty: there is nothing to seal yet');
    const checkpoint = noteWithCosignatures(last);
    if (!context.options['sketch']) {
      context.answer(checkpoint.trimEnd());
      return 0;
    }
    const sketch = await lastSketch(db);
    if (sketch?.size !== last.size)
      throw new CommandFailed('another checkpoint was made at the same time: try again');
    context.answer({
      checkpoint,
      sketch: sketch.cells.toString('base64'),
      sketch_signature: sketch.signature.toString('base64'),
    });
    return 0;
  },
};
