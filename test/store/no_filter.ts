/** A query of a list that leaves nothing out. */
import type { ListQuery } from '../../src/store/lists.ts';

export const NO_FILTER: Omit<ListQuery, 'limit'> = {
  status: null,
  verdict: null,
  language: null,
  test_set: null,
  from: null,
  to: null,
  after: null,
};
