import type { Db } from '../../src/db.ts';

/** Counts the statements, when they are given to the connections. */
export function counting(db: Db) {
  let statements = 0;
  const counted = new Proxy(db, {
    apply(db, _self, args: Parameters<Db>) {
      statements += 1;
      return db(...args);
    },
  });
  return { db: counted, statements: () => statements };
}
