import { askWitnessesOnce } from '../../queue/cosigning.ts';
import {
  checkOurs,
  createSealer,
  lastCheckpoint,
  lastSketch,
  noteWithCosignatures,
} from '../../store/checkpoints.ts';
import { type Command, CommandFailed } from '../command.ts';
import { requiredLogKey } from '../installation_keys.ts';

export const command: Command = {
  summary:
    'seal the log now and print the newest checkpoint with its cosignatures; keep it where the database administrator cannot write',
  options: {
    sketch: { help: 'print JSON with the sketch, too, by which verify names events that differ' },
  },
  example: 'seal > checkpoint.txt',
  async run(context) {
    const key = await requiredLogKey(context);
    const db = await context.database();
    const sealer = createSealer(key);
    // Before anything is signed, because a witness may have another tree; and after it, for the cosignatures.
    const witnesses = context.config.witnesses ?? [];
    const ask = askWitnessesOnce(db, witnesses, sealer);
    await ask();
    await sealer.seal(db);
    for (const { name, problem } of await ask())
      if (problem) context.say(`the witness ${name} has not cosigned: ${problem}`);
    const stopped = sealer.problem();
    if (stopped) throw new CommandFailed(stopped);
    const last = await lastCheckpoint(db);
    if (!last) throw new CommandFailed('the log is empty: there is nothing to seal yet');
    // Another process may have sealed since: nothing is printed that is not ours.
    checkOurs(last, key);
    const checkpoint = noteWithCosignatures(
      last,
      witnesses.map(({ key }) => key),
    );
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
