/** Pairs, kept and saved files, and stored inputs without namespaces and groups. */
process.env['RUNLEDGER_TEST_ISOLATION'] = 'rlimits';

await import('./input_file.test.ts');
await import('./kept_files.test.ts');
await import('./pairs.test.ts');
await import('./pairs_in_slots.test.ts');
await import('./saving.test.ts');
