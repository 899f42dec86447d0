/** The result record as the OpenAPI document describes it: the answer of several calls. */
import * as v from 'valibot';
import { RESULT_SCHEMAS } from '../../domain/record.ts';
import { BY_NAME } from '../../languages/common/registry.ts';

export const uuid = v.pipe(v.string(), v.metadata({ format: 'uuid' }));
export const whole = v.pipe(v.number(), v.integer());

/** No enum: a strict client that was made before a language came would reject each record of it. */
export const languageName = (names: Iterable<string>, more = '') =>
  v.pipe(
    v.string(),
    v.description(`The canonical name${more}. The names: ${[...names].join(', ')}.`),
  );

export const LANGUAGE = languageName(
  BY_NAME.keys(),
  '; a record may have a language that is off now',
);

export const RESULT = v.strictObject({ ...RESULT_SCHEMAS, language: LANGUAGE });
