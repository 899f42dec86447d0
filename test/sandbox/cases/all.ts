import type { Case } from '../case.ts';
import { bombs } from './bombs.ts';
import { bombs_of_objects } from './bombs_of_objects.ts';
import { c } from './c.ts';
import { endings } from './endings.ts';
import { files } from './files.ts';
import { files_and_rights } from './files_and_rights.ts';
import { javascript } from './javascript.ts';
import { kernel } from './kernel.ts';
import { locks } from './locks.ts';
import { memory } from './memory.ts';
import { network } from './network.ts';
import { output } from './output.ts';
import { processors } from './processors.ts';
import { sharing } from './sharing.ts';

export const CASES: readonly Case[] = [
  ...bombs,
  ...bombs_of_objects,
  ...memory,
  ...endings,
  ...files,
  ...files_and_rights,
  ...kernel,
  ...network,
  ...output,
  ...locks,
  ...sharing,
  ...processors,
  ...c,
  ...javascript,
];
