#!/usr/bin/env node
/**
 * The command line's entry. Node compiles a module as soon as it is imported, so the cache must be there before the rest is. It
 * halves the CPU time of a start. Where its folder cannot be written, Node compiles again; nothing else changes.
 *
 * It is the one module that the cache cannot have, so it is JavaScript: Node's compiler of TypeScript takes 12 MB, which a
 * process keeps for all its life.
 */
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

enableCompileCache(join(import.meta.dirname, '../../build/compiled-modules'));
const { main } = await import('./command_line.ts');
process.exitCode = await main(process.argv.slice(2));
