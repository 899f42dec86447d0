/** Variables of the worker: languages, isolation, and a switch for each speed-up. */
import { bytes, choice, list, onOff, whole } from './parsers.ts';
import { GiB, optional, path, row } from './variable.ts';

export const executor = {
  languages: row('RUNLEDGER_LANGUAGES', list('python', 'cpp', 'java'), {
    default: 'python,cpp,java',
    unit: 'words',
    reason: 'the languages of this deployment; any other is a 400',
  }),
  slots: optional('RUNLEDGER_SLOTS', whole(1, 1024), {
    unit: 'slots',
    reason: 'programs that run at one time on this worker; one per core where not set',
  }),
  isolation: row('RUNLEDGER_ISOLATION', choice('auto', 'rlimits'), {
    default: 'auto',
    unit: 'word',
    reason: 'auto does not start without real isolation; rlimits is weaker, and results say so',
  }),
  launcher: row('RUNLEDGER_LAUNCHER', path, {
    default: 'build/launcher',
    unit: 'file',
    reason: 'the program that builds the boxes',
  }),
  python_zygote: row('RUNLEDGER_PYTHON_ZYGOTE', onOff, {
    default: 'on',
    unit: 'on/off',
    reason: 'start Python programs by fork from a warm interpreter',
  }),
  precompiled_headers: row('RUNLEDGER_PRECOMPILED_HEADERS', onOff, {
    default: 'on',
    unit: 'on/off',
    reason: 'compile C++ with headers that were compiled ahead',
  }),
  mold: row('RUNLEDGER_MOLD', onOff, {
    default: 'on',
    unit: 'on/off',
    reason: 'link C++ with mold where it is installed',
  }),
  java_compiler: row('RUNLEDGER_JAVA_COMPILER', onOff, {
    default: 'on',
    unit: 'on/off',
    reason: 'keep a javac running instead of starting one per submission',
  }),
  compile_cache_bytes: row('RUNLEDGER_COMPILE_CACHE_BYTES', bytes(0, 1024 * GiB), {
    default: '1GiB',
    unit: 'bytes',
    reason: 'compiled programs kept on disk; 0 keeps none',
  }),
};
