/** The variables of the limits. Names, defaults and ranges come from the table in src/domain/limits.ts. */
import {
  COMPILE_DEFAULTS,
  LIMITS,
  type Limit,
  type LimitField,
  type RequestField,
} from '../domain/limits.ts';
import { spellBytes, spellTime } from '../domain/units.ts';
import { bytes, duration, whole } from './parsers.ts';
import { GiB, HOUR, MiB, row, type Variable } from './variable.ts';

const LIMIT = 'what one run gets; a language gets more where its runtime cannot start with less';
const BOUND = 'the most that a request may ask for in `limits`';
const COMPILE = 'what one compile gets';

type LimitVariables = Record<
  `limits_${LimitField}` | `limits_max_${RequestField}`,
  Variable<number>
>;

export const limits = {
  ...(Object.fromEntries(
    Object.entries(LIMITS).flatMap(([field, limit]) => variablesOf(field, limit)),
  ) as LimitVariables),
  limits_compile_cpu_ms: row('RUNLEDGER_LIMITS_COMPILE_CPU', duration(100, HOUR), {
    default: spellTime(COMPILE_DEFAULTS.cpu_ms),
    unit: 'time',
    reason: COMPILE,
  }),
  limits_compile_wall_ms: row('RUNLEDGER_LIMITS_COMPILE_WALL', duration(100, HOUR), {
    default: spellTime(COMPILE_DEFAULTS.wall_ms),
    unit: 'time',
    reason: COMPILE,
  }),
  limits_compile_memory_bytes: row('RUNLEDGER_LIMITS_COMPILE_MEMORY', bytes(MiB, 1024 * GiB), {
    default: spellBytes(COMPILE_DEFAULTS.memory_bytes),
    unit: 'bytes',
    reason: COMPILE,
  }),
  limits_compile_output_bytes: row('RUNLEDGER_LIMITS_COMPILE_OUTPUT', bytes(0, 64 * MiB), {
    default: spellBytes(COMPILE_DEFAULTS.stderr_bytes),
    unit: 'bytes',
    reason: 'diagnostics of a compiler that are kept',
  }),
};

/** The variable of the default and, for a limit that a request may set, that of the maximum. */
function variablesOf(field: string, limit: Limit): [string, Variable<number>][] {
  const { variable, reason = LIMIT, request } = limit;
  const { parse, unit, spell } = kindOf(limit);
  const own = row(variable, parse, { default: spell(limit.default), unit, reason });
  if (request === undefined) return [[`limits_${field}`, own]];
  const most = { default: spell(request.max), unit, reason: BOUND };
  return [
    [`limits_${field}`, own],
    [`limits_max_${field}`, row(`${variable}_MAX`, parse, most)],
  ];
}

function kindOf({ unit, range, counts = 'count' }: Limit) {
  if (unit === 'ms') return { parse: duration(...range), unit: 'time', spell: spellTime };
  if (unit === 'bytes') return { parse: bytes(...range), unit, spell: spellBytes };
  return { parse: whole(...range), unit: counts, spell: String };
}
