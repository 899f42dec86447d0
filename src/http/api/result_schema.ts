/** The result record as the OpenAPI document describes it: the answer of several calls. */
import * as v from 'valibot';
import { RESULT_SCHEMAS } from '../../domain/record.ts';
import { BY_NAME } from '../../languages/common/registry.ts';

export const uuid = v.pipe(v.string(), v.metadata({ format: 'uuid' }));
export const whole = v.pipe(v.number(), v.integer());

export const LANGUAGE = v.pipe(
  v.picklist([...BY_NAME.keys()]),
  v.description('The canonical name; a record may have a language that is off now.'),
);

export const RESULT = v.strictObject({ ...RESULT_SCHEMAS, language: LANGUAGE });
