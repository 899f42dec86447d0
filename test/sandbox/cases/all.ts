import type { Case } from '../case.ts';
import { bombs } from './bombs.ts';
import { c } from './c.ts';
import { endings } from './endings.ts';
import { files } from './files.ts';
import { javascript } from './javascript.ts';
import { kernel } from './kernel.ts';
import { network } from './network.ts';
import { output } from './output.ts';

export const CASES: readonly Case[] = [
  ...bombs,
  ...endings,
  ...files,
  ...kernel,
  ...network,
  ...output,
  ...c,
  ...javascript,
];
