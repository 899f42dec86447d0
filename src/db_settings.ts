/**
 * The settings of every session that change how statements are read, or how values are printed. A superuser can set them for a
 * role, a database or the server. A client's own come before these, so each connection names them.
 *
 * Those that only a superuser may set are not here: verify names them (src/store/schema_lines.ts).
 */

export const PINNED = {
  search_path: 'pg_catalog, pg_temp',
  bytea_output: 'hex',
  DateStyle: 'ISO, YMD',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  backslash_quote: 'safe_encoding',
  transform_null_equals: 'off',
  array_nulls: 'on',
  quote_all_identifiers: 'off',
  row_security: 'on',
  xmlbinary: 'base64',
  default_transaction_isolation: 'read committed',
  default_transaction_read_only: 'off',
  default_transaction_deferrable: 'off',
} as const;

/** Of these, what a pooler knows as startup parameters. It rejects others. */
export const PINNED_BEHIND_POOLER = {
  DateStyle: PINNED.DateStyle,
  TimeZone: PINNED.TimeZone,
  standard_conforming_strings: PINNED.standard_conforming_strings,
} as const;

/** Those that change values without an error, if a pooler lets them through: by name, the values that do not. */
export const HARMLESS: Readonly<Record<string, RegExp>> = {
  bytea_output: /^hex$/,
  extra_float_digits: /^[1-3]$/,
  standard_conforming_strings: /^on$/,
  transform_null_equals: /^off$/,
  array_nulls: /^on$/,
};

/** As statements, for a session (`set`) or a transaction (`set local`). */
export const settingStatements = (
  settings: Readonly<Record<string, string | number>>,
  set: 'set' | 'set local',
): string =>
  Object.entries(settings)
    // A list in quotes would be one name.
    .map(([name, value]) => `${set} ${name} = ${name === 'search_path' ? value : `'${value}'`}`)
    .join('; ');
