/** The languages of the API: every name that a request may give, and the canonical name that it stands for. */
import type { Language } from '../../domain/limits.ts';

export const LANGUAGES = ['python', 'cpp', 'java'] as const satisfies readonly Language[];

export type LanguageName = 'python' | 'py' | 'cpp' | 'c++' | 'cxx' | 'java';

export const LANGUAGE_NAMES: Readonly<Record<LanguageName, Language>> = {
  python: 'python',
  py: 'python',
  cpp: 'cpp',
  'c++': 'cpp',
  cxx: 'cpp',
  java: 'java',
};
