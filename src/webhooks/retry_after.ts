/** The Retry-After header of an answer (RFC 9110, section 10.2.3): a number of seconds, or an HTTP date. */

/**
 * Milliseconds from `now`; null for text that is neither seconds nor one of the three forms of an
 * HTTP date. A date in the past gives 0.
 */
export function parseRetryAfter(text: string | undefined, now: Date): number | null {
  const value = text?.trim() ?? '';
  if (/^\d{1,15}$/.test(value)) return Number(value) * 1000;
  const at = parseHttpDate(value, now);
  return at === null ? null : Math.max(0, at - now.getTime());
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const TIME = '(?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>\\d\\d)';
const DATE_FORMS = [
  `^[a-z]{3}, (?<day>\\d\\d) (?<month>[a-z]{3}) (?<year>\\d{4}) ${TIME} gmt$`,
  `^[a-z]{6,9}, (?<day>\\d\\d)-(?<month>[a-z]{3})-(?<year>\\d\\d) ${TIME} gmt$`,
  `^[a-z]{3} (?<month>[a-z]{3}) (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})$`,
].map((form) => new RegExp(form, 'i'));

function parseHttpDate(value: string, now: Date): number | null {
  const fields = DATE_FORMS.map((form) => form.exec(value)?.groups).find((groups) => groups);
  const month = MONTHS.indexOf(fields?.['month']?.toLowerCase() ?? '');
  if (fields === undefined || month < 0) return null;
  const [year, day, hour, minute, second] = ['year', 'day', 'hour', 'minute', 'second'].map(
    (name) => Number(fields[name]),
  );
  const full = fields['year']!.length === 2 ? fullYear(year!, now) : year!;
  const inRange = day! >= 1 && day! <= 31 && hour! < 24 && minute! < 60 && second! <= 60;
  return inRange ? Date.UTC(full, month, day, hour, minute, second) : null;
}

/** RFC 9110: a two-digit year more than 50 years ahead is a year of the past century. */
function fullYear(year: number, now: Date): number {
  const thisYear = now.getUTCFullYear();
  const full = thisYear - (thisYear % 100) + year;
  return full > thisYear + 50 ? full - 100 : full;
}
