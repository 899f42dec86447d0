/**
 * Programs that look at what a warm interpreter could have changed: how it starts, what it shows of itself, how it
 * fails and how it ends. Families are written once and multiplied; a program is its name, its source, and where it
 * matters its input and arguments.
 */

import { ordinary, processes, recursion } from './python_corpus/doings.ts';
import { endings, outputs, signals } from './python_corpus/endings.ts';
import { exits, files, raises, syntax, tracebacks } from './python_corpus/failures.ts';
import type { PythonProgram } from './python_corpus/program.ts';
import { arguments_, inputs, looks } from './python_corpus/sights.ts';

export const CORPUS: readonly PythonProgram[] = [
  ...exits,
  ...raises,
  ...tracebacks,
  ...syntax,
  ...files,
  ...looks,
  ...inputs,
  ...outputs,
  ...endings,
  ...signals,
  ...recursion,
  ...processes,
  ...arguments_,
  ...ordinary,
];
