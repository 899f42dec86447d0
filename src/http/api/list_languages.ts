/** GET /api/languages and GET /api/toolchains */
import * as v from 'valibot';
import { BY_NAME } from '../../languages/common/registry.ts';
import type { ServiceHealth } from '../../store/service_health.ts';
import { STATUS } from '../wire/answer.ts';
import type { ApiCall, Web } from './api_call.ts';
import { COMMON, RATE } from './operation.ts';
import { withHealth } from './read_health.ts';
import { languageName } from './result_schema.ts';

/** The languages that this deployment accepts and a live worker has, by their canonical names. */
function runnable({ config }: Web, { toolchains }: ServiceHealth): string[] {
  return config.languages.filter((name) => Object.hasOwn(toolchains, name)).sort();
}

export const languages: ApiCall = {
  method: 'GET',
  path: '/api/languages',
  keyed: true,
  operation: {
    id: 'languages',
    tag: 'service',
    summary: 'What can run now',
    description:
      'A language that no live worker has is left out. It is accepted all the same, and waits for a worker.',
    success: (rules) => [
      {
        status: '200',
        description: 'The canonical names of the languages that live workers can run.',
        schemas: { Languages: v.array(languageName(rules.languages)) },
        headers: RATE,
        examples: { all: { value: rules.languages.toSorted() } },
      },
    ],
    problems: ['method_not_allowed', ...COMMON],
  },
  handler: (web, exchange, digest) =>
    withHealth(web, exchange, digest, (health) => ({
      status: STATUS.ok,
      body: runnable(web, health),
    })),
};

const toolchainsOf = (names: readonly string[]) =>
  v.array(
    v.strictObject({
      name: languageName(names),
      title: v.pipe(v.string(), v.description('For people.')),
      aliases: v.pipe(v.array(v.string()), v.description('Other names that are accepted.')),
      versions: v.pipe(
        v.array(v.string()),
        v.description('Of the live workers; more than one while they differ.'),
      ),
      runs_now: v.pipe(
        v.boolean(),
        v.description('A live worker has it. A submission waits until one does.'),
      ),
    }),
  );

export type ToolchainList = v.InferOutput<ReturnType<typeof toolchainsOf>>;

export const toolchains: ApiCall = {
  method: 'GET',
  path: '/api/toolchains',
  keyed: true,
  operation: {
    id: 'toolchains',
    tag: 'service',
    summary: 'Every language, with its aliases and versions',
    description: 'The versions are those that the live workers found on their machines.',
    success: (rules) => [
      {
        status: '200',
        description: 'Every language that this deployment accepts.',
        schemas: { Toolchains: toolchainsOf(rules.languages) },
        headers: RATE,
        examples: { all: { value: listOf(rules.languages, {}) } },
      },
    ],
    problems: ['method_not_allowed', ...COMMON],
  },
  handler: (web, exchange, digest) =>
    withHealth(web, exchange, digest, (health) => ({
      status: STATUS.ok,
      body: listOf(web.config.languages, health.toolchains),
    })),
};

function listOf(names: readonly string[], found: ServiceHealth['toolchains']): ToolchainList {
  return names.toSorted().map((name) => {
    const { title, aliases } = BY_NAME.get(name)!;
    const versions = found[name] ?? [];
    return { name, title, aliases: [...aliases], versions, runs_now: Object.hasOwn(found, name) };
  });
}
