/** An error as the OpenAPI document describes it. */
import * as v from 'valibot';
import { ERRORS_SHOWN } from '../wire/json_text.ts';
import { PROBLEM_WORDS } from '../wire/problem.ts';
import { uuid } from './result_schema.ts';

const entries = {
  error: v.pipe(
    v.picklist(PROBLEM_WORDS),
    v.description('A stable word, for programs to decide by.'),
  ),
  message: v.pipe(v.string(), v.description('For people.')),
  fields: v.exactOptional(
    v.pipe(
      v.array(
        v.strictObject({
          path: v.pipe(
            v.string(),
            v.description(
              'A field (limits.memory, args[2]), a parameter (?wait), a header (idempotency-key), or empty for the body as a whole.',
            ),
          ),
          message: v.string(),
        }),
      ),
      v.description(
        `With invalid_request: every mistake; of more than ${ERRORS_SHOWN} in one submission, so many of them.`,
      ),
    ),
  ),
};

export const PROBLEM = v.strictObject({
  ...entries,
  id: v.exactOptional(v.pipe(uuid, v.description('With timeout: the submission, which goes on.'))),
});

/** Of one item of a batch. */
export const ITEM_PROBLEM = v.strictObject(entries);
